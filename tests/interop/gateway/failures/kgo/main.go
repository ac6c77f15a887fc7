// The worker copies records of a topic to another one in transactions of kgo. It ends at
// the end of its stdin; ../copiers.py has the arguments and the lines of its stdout.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const batch = 100

func main() {
	stopped, stop := context.WithCancel(context.Background())
	go func() {
		io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	for stopped.Err() == nil {
		if err := work(stopped, os.Args[1:]); err != nil {
			fmt.Println("failed", strings.ReplaceAll(err.Error(), "\n", " "))
		}
	}
}

// Copy records until the end of stdin, or an error after which kgo needs another client.
func work(stopped context.Context, arguments []string) error {
	bootstrap, name, group := arguments[0], arguments[1], arguments[2]
	protocol, source, target := arguments[3], arguments[4], arguments[5]
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.TransactionalID(name),
		kgo.TransactionTimeout(20 * time.Second),
		kgo.DefaultProduceTopic(target),
		kgo.ConsumerGroup(group),
		kgo.SessionTimeout(6 * time.Second),
		kgo.ConsumeTopics(source),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
	}
	if protocol == "consumer" {
		options = append(options, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())
	}
	session, err := kgo.NewGroupTransactSession(options...)
	if err != nil {
		return err
	}
	defer session.Close()
	for {
		fetches := session.PollRecords(stopped, batch)
		if stopped.Err() != nil {
			return nil
		}
		if fetches.Empty() {
			continue
		}
		if err := session.Begin(); err != nil {
			return err
		}
		first := kgo.AbortingFirstErrPromise(session.Client())
		fetches.EachRecord(func(record *kgo.Record) {
			copied := &kgo.Record{Value: record.Value}
			session.Produce(context.Background(), copied, first.Promise())
		})
		committed, err := session.End(context.Background(), first.Err() == nil)
		if err != nil {
			return err
		}
		if !committed {
			fmt.Println("aborted")
		}
	}
}
