package zk_test

import (
	"fmt"
	"io"
	"sync"
	"testing"
	"time"
)

// TestAConnectWaitsForTheLeader: during an election a node keeps the clients that connect. If it sent them away, they
// would find no leader at the other nodes either, and pause for longer than the election.
func TestAConnectWaitsForTheLeader(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		served(t, c, "z", 10*time.Second)
		const every, tries, kept = 50 * time.Millisecond, 200, 800 * time.Millisecond
		heal := c.Apart()
		time.Sleep(5 * time.Second)
		type try struct{ begun, ended time.Time }
		all, welcome := make([]try, tries), make([]bool, tries)
		var clients sync.WaitGroup
		for i := range tries {
			if i == tries/10 {
				heal()
			}
			all[i].begun = time.Now()
			clients.Go(func() {
				n, err := c.Host(fmt.Sprint("patient", i)).Dial(t.Context(), "n1:7404")
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = n.Close() }()
				_, _ = n.Write(connecting(0, nil))
				_, err = io.ReadFull(n, make([]byte, 4+36))
				all[i].ended, welcome[i] = time.Now(), err == nil
			})
			time.Sleep(every)
		}
		clients.Wait()
		var first time.Time
		for i, one := range all {
			if welcome[i] && (first.IsZero() || one.ended.Before(first)) {
				first = one.ended
			}
		}
		if first.IsZero() || welcome[0] {
			t.Fatalf("no client was welcomed, or one before there was a leader: %v", welcome)
		}
		for i, one := range all {
			if !welcome[i] && first.Sub(one.begun) < kept {
				t.Errorf("a client that connected %v before the node welcomed one was sent away after %v",
					first.Sub(one.begun), one.ended.Sub(one.begun))
			}
		}
	})
}
