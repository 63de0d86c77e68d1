// Package fuzz gives parts of a node, wired together as in production, any messages that an enemy could send: any
// messages of a client on its connection, any messages of a node to the leader, any messages of a leader to a node.
// Consensus is left out ([noraft.Cluster]), so that a fuzzer tries thousands of inputs a minute.
package fuzz

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
	"holdfast/test/fuzz/bound"
	"holdfast/test/noraft"
)

const (
	interval = noraft.Interval
	shortest = 4 * time.Second
	longest  = 8 * time.Second
)

// ofMessages is the cost that messages may have. The fixed part is for the node itself.
func ofMessages() bound.Cost {
	return bound.Cost{PerByte: 16 << 10, Fixed: 8 << 20, Time: 30 * time.Second}
}

// tokenOf returns the token of s. Every world has the same key, so seeds can hold tokens.
func tokenOf(s session.Session) session.Token {
	k := noraft.Key()
	return session.Token{ID: s.ID, Credential: k.Credential(s.ID), Attachment: s.Attachment}
}

// world is a cluster that is led, and the log of its nodes.
type world struct {
	*noraft.Cluster

	alarms  *alarms
	cancel  context.CancelFunc // ends the leader's term
	started sync.WaitGroup     // of the goroutines that a fuzz target started itself
}

// newWorld returns a cluster of cfg that has applied the commands and is led. The test defers stop.
func newWorld(t *testing.T, cfg noraft.Config, commands ...session.Command) *world {
	t.Helper()
	w := &world{alarms: &alarms{}}
	cfg.Limits = session.Limits{Min: shortest, Max: longest}
	cfg.Try = []string{"other:7400"}
	cfg.Logger = w.alarms.logger()
	w.Cluster = noraft.New(cfg)
	for _, c := range commands {
		if _, err := w.Apply(c); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	w.Lead(ctx)
	return w
}

// stop ends the world. It fails the test when the state has halted, or when the log tells of a panic, which the ports
// recover from.
func (w *world) stop(t *testing.T) {
	t.Helper()
	w.cancel()
	if err := w.Wait(); err != nil {
		t.Error(err)
	}
	w.started.Wait()
	if text := w.alarms.String(); strings.Contains(text, "panic") {
		t.Errorf("the log tells of a panic:\n%s", text)
	}
}

// alarms keeps the errors that the nodes log.
type alarms struct {
	mu   sync.Mutex
	text strings.Builder
}

func (a *alarms) Write(b []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.Write(b)
}

func (a *alarms) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.text.String()
}

func (a *alarms) logger() hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{Output: a, Level: hclog.Error})
}
