package pending_test

import (
	"testing"

	"holdfast/learner/tree/pending"
	"holdfast/session"
	"holdfast/tree/writers"
)

// BenchmarkWrite accepts, sends and answers writes of 10,000 sessions in turn.
func BenchmarkWrite(b *testing.B) {
	state := writers.New(bag{}, writers.DefaultLimits())
	command := make([]byte, 128)
	table := pending.New(pending.DefaultLimits(), func(pending.Write) []byte { return command })
	table.StreamBegan(begun)
	const sessions = 10_000
	numbers := make([]uint64, sessions)
	body := make([]byte, 100)
	outcome := make([]pending.Outcome, 1)
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		s := i % sessions
		i++
		numbers[s]++
		w := pending.Write{Session: session.ID(s + 1), Attachment: 1, Number: numbers[s], Weight: 1, Body: body}
		if err := table.Accept(w, state, begun); err != nil {
			b.Fatal(err)
		}
		if len(table.Next(begun)) != 1 {
			b.Fatal("not sent")
		}
		outcome[0] = pending.Outcome{Session: w.Session, Attachment: 1, Number: w.Number}
		table.Applied(outcome, begun)
	}
}
