package node

import (
	"encoding/binary"
	"sync"
	"testing"
	"time"

	"holdfast/session"
)

// BenchmarkOpens1024 opens 1,024 sessions at once through a node on a real disk, and reports how many of them shared an
// entry, and a sync of the Raft log.
func BenchmarkOpens1024(b *testing.B) {
	const opens = 1024
	n := start(b, alone(b))
	conn, err := n.server.Connect(nil)
	if err != nil {
		b.Fatal(err)
	}
	entries, writes := n.consensus.Proposer.Stats().Entries, n.consensus.Store.Writes()
	request := uint64(0)
	for b.Loop() {
		var wg sync.WaitGroup
		for range opens {
			request++
			var id session.RequestID
			binary.BigEndian.PutUint64(id[:], request)
			wg.Go(func() {
				_, err := conn.Open(b.Context(),
					session.OpenRequest{
						RequestID: id, Spec: session.Spec{Timeout: time.Minute},
						MS: session.MS(time.Now()),
					})
				if err != nil {
					b.Error(err)
				}
			})
		}
		wg.Wait()
	}
	all := float64(b.N * opens)
	b.ReportMetric(all/float64(n.consensus.Proposer.Stats().Entries-entries), "opens/entry")
	b.ReportMetric(all/float64(n.consensus.Store.Writes()-writes), "opens/fsync")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/all, "ns/open")
}
