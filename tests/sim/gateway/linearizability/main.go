// Judges histories of commits and fetches with porcupine, a checker of linearizability.
// Reads one world a line, as `python -m sim --gateway --history` writes them, and exits
// with 1 when a history is not linearizable, or cannot be judged in time.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/anishathalye/porcupine"
)

const (
	noOffset  = -1
	never     = -1
	patience  = 30 * time.Second
	lineBytes = 1 << 28
)

// An operation is [is a write, value, begin, end]. The end is -1 without a response.
type operation struct {
	isWrite    bool
	value      int64
	began, end int64
}

func (op *operation) UnmarshalJSON(data []byte) error {
	fields := []any{&op.isWrite, &op.value, &op.began, &op.end}
	return json.Unmarshal(data, &fields)
}

type world struct {
	Seed      int64                  `json:"seed"`
	Registers map[string][]operation `json:"registers"`
}

var register = porcupine.Model{
	Init: func() any { return int64(noOffset) },
	Step: func(state, input, output any) (bool, any) {
		op := input.(operation)
		if op.isWrite {
			return true, op.value
		}
		return op.value == state.(int64), state
	},
}

func judge(operations []operation) porcupine.CheckResult {
	history := make([]porcupine.Operation, 0, len(operations))
	for client, op := range operations {
		end := op.end
		if end == never {
			end = math.MaxInt64
		}
		history = append(history, porcupine.Operation{
			ClientId: client, Input: op, Call: op.began, Return: end,
		})
	}
	return porcupine.CheckOperationsTimeout(register, history, patience)
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, lineBytes)
	worlds, registers, operations, failures := 0, 0, 0, 0
	for lines.Scan() {
		var found world
		if err := json.Unmarshal(lines.Bytes(), &found); err != nil {
			fmt.Fprintln(os.Stderr, "a history cannot be read:", err)
			os.Exit(2)
		}
		worlds++
		for name, of := range found.Registers {
			registers++
			operations += len(of)
			if result := judge(of); result != porcupine.Ok {
				failures++
				fmt.Printf("seed %d: %s is not linearizable: %s\n", found.Seed, name, result)
			}
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "the histories cannot be read:", err)
		os.Exit(2)
	}
	fmt.Printf("%d worlds, %d registers, %d operations, %d not linearizable\n",
		worlds, registers, operations, failures)
	if failures > 0 {
		os.Exit(1)
	}
}
