package tree_test

import (
	"testing"
	"time"

	"holdfast/learner/tree/pending"
	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/form"
)

// pipelined is how many writes of the benchmark are unanswered.
const pipelined = 64

// busyClient returns the client of a benchmark, which receives its events.
func (w *world) busyClient() *client {
	w.node.woken = make(chan struct{}, 1)
	w.opens(one)
	c := w.connects(one)
	c.news = make(chan struct{}, 1)
	return c
}

// await receives the client's messages until it has n answers.
func (c *client) await(n int) {
	for n > 0 {
		t, ok := c.conn.Next(time.Now())
		if !ok {
			<-c.news
			continue
		}
		if t.Answer != nil {
			n--
		}
	}
}

// BenchmarkWrite is what a node does for a pipelined write, but for the log and the state's own work: the request, the
// queue, the command, the outcome and the answer.
func BenchmarkWrite(b *testing.B) {
	w := newWorld(b, nil)
	defer w.run()()
	c := w.busyClient()
	result := form.AppendResult(nil, tree.Result{Outcome: tree.Outcome{Ops: make([]tree.OpOutcome, 1)}})
	write := numbered(one, 0, 0)
	b.ReportAllocs()
	b.ResetTimer()
	for begun := 0; begun < b.N; begun += pipelined {
		n := min(pipelined, b.N-begun)
		for range n {
			write.Number++
			write.Acked = max(write.Number, pipelined) - pipelined
			if c.conn.Full() != nil { // the port looks before each request
				b.Fatal("full")
			}
			if err := c.conn.Write(session.TreeWrite{Key: write.Number, Write: write}); err != nil {
				b.Fatal(err)
			}
		}
		w.benchApplies(n, result)
		c.await(n)
	}
}

// benchApplies reports to the service n writes that were sent, which it waits for, with the same result each.
func (w *world) benchApplies(n int, result []byte) {
	for n > 0 {
		w.node.mu.Lock()
		sent := w.node.sent
		w.node.sent = nil
		w.node.mu.Unlock()
		if len(sent) == 0 {
			<-w.node.woken
			continue
		}
		n -= len(sent)
		w.index++
		w.service.Applied(w.state(), nil, benchOutcomes(w.index, sent, result))
	}
}

func benchOutcomes(index uint64, sent []session.ForwardedWrite, result []byte) []pending.Outcome {
	all := make([]pending.Outcome, len(sent))
	for i, one := range sent {
		all[i] = pending.Outcome{
			Session: one.Session, Attachment: 1, Number: one.Number, At: tree.StampAt(index, i+1), Result: result,
		}
	}
	return all
}

// BenchmarkRead is a read of a session through the node, and its answer.
func BenchmarkRead(b *testing.B) {
	w := newWorld(b, nil)
	defer w.run()()
	c := w.busyClient()
	read := session.TreeRead{Bytes: 100, Query: tree.Query{Kind: tree.GetEntry, Path: "/", Session: uint64(one)}}
	b.ReportAllocs()
	for b.Loop() {
		read.Key++
		if c.conn.Full() != nil {
			b.Fatal("full")
		}
		if err := c.conn.Read(read); err != nil {
			b.Fatal(err)
		}
		c.await(1)
	}
}
