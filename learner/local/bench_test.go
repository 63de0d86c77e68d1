package local

import (
	"testing"
	"time"

	"holdfast/session"
)

// BenchmarkTouchAll measures one touch of all sessions of a connection with many local sessions.
func BenchmarkTouchAll(b *testing.B) {
	const sessions = 10_000
	l := tableWith(1<<56, sessions)
	all := make(map[session.ID]*Session, sessions)
	for i := range sessions {
		s, err := l.Open(
			session.OpenRequest{
				RequestID: session.RequestID{byte(i), byte(i >> 8)},
				Spec:      session.Spec{Timeout: timeout},
			}, &conn{}, 0,
		)
		if err != nil {
			b.Fatal(err)
		}
		all[s.facts.ID] = s
	}
	now := time.Duration(0)
	b.ReportAllocs()
	for b.Loop() {
		now++
		l.TouchAll(all, now)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/sessions, "ns/session")
}
