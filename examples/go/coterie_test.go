package coterie

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Server is a `coterie serve --memory` process and its control API.
type Server struct {
	BootstrapServers string
	control          string
	http             http.Client
}

// StartServer starts a server that ends with the test. The environment variable COTERIE
// is the path of the command, if it is not on PATH.
func StartServer(t *testing.T) *Server {
	t.Helper()
	name := os.Getenv("COTERIE")
	if name == "" {
		name = "coterie"
	}
	command := exec.Command(name, "serve", "--memory",
		"--listen", "127.0.0.1:0",
		"--control", "127.0.0.1:0",
		"--set", "group.initial.rebalance.delay.ms=0")
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Signal(os.Interrupt)
		_ = command.Wait()
	})
	lines := bufio.NewScanner(output)
	return &Server{
		BootstrapServers: after(t, lines, "coterie ready on "),
		control:          after(t, lines, "coterie control on "),
		http:             http.Client{Timeout: time.Minute},
	}
}

func after(t *testing.T, lines *bufio.Scanner, prefix string) string {
	t.Helper()
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), prefix) {
		t.Fatalf("coterie serve printed %q instead of %q", lines.Text(), prefix)
	}
	return strings.TrimPrefix(lines.Text(), prefix)
}

// Post sends a request to the control API and decodes the response into result, if any.
func (s *Server) Post(t *testing.T, path string, body, result any) {
	t.Helper()
	data, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	response, err := s.http.Post(s.control+path, "application/json", bytes.NewReader(data))
	s.decode(t, path, response, err, result)
}

// Get does the same without a body.
func (s *Server) Get(t *testing.T, path string, result any) {
	t.Helper()
	response, err := s.http.Get(s.control + path)
	s.decode(t, path, response, err, result)
}

func (s *Server) decode(t *testing.T, path string, response *http.Response, err error, result any) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode >= 400 {
		err = fmt.Errorf("%s: %s", path, data)
	}
	if err == nil && result != nil {
		err = json.Unmarshal(data, result)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// CreateTopic creates a topic and appends records with these values.
func (s *Server) CreateTopic(t *testing.T, name string, config map[string]string, values ...string) {
	t.Helper()
	s.Post(t, "/v1/topics", map[string]any{"name": name, "config": config}, nil)
	records := []map[string]string{}
	for _, value := range values {
		records = append(records, map[string]string{"value": value})
	}
	s.Post(t, "/v1/topics/"+name+"/records", map[string]any{"records": records}, nil)
}

// Fault starts a fault and returns a function that returns how many requests it hit.
func (s *Server) Fault(t *testing.T, fault map[string]any) (hits func() int) {
	t.Helper()
	var started struct{ ID int }
	s.Post(t, "/v1/faults", fault, &started)
	return func() int {
		t.Helper()
		var now struct{ Hits int }
		s.Get(t, fmt.Sprintf("/v1/faults/%d", started.ID), &now)
		return now.Hits
	}
}
