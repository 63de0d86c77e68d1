package sim

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/sim/faults"
)

// TestHiccups stops the process of a follower for 0.75 s every 3 s, which is more often than any session's timeout
// lasts. Sessions there whose clients have vanished end within the bound (I2 never late), and sessions of living
// clients do not end (I1 never early).
func TestHiccups(t *testing.T) {
	r := newReport(8, 3)
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(session.Epoch().AddDate(0, 6, 0)))
		w := newWorld(t, r)
		for _, name := range w.names {
			w.Start(name)
		}
		p := w.population()
		w.clients = p.names()
		running, stop := context.WithCancel(context.Background())
		p.begin(running)
		sleep(running, recovery)
		one := slices.IndexFunc(w.names, func(name string) bool { return name != w.Leader() })
		hiccups := []faults.Fault{
			{Kind: faults.Hiccups, Nodes: []int{one}, Size: 0.49, Caller: 0.625, Lasts: time.Minute},
		}
		opening, vanish := context.WithTimeout(running, 2*time.Second)
		defer vanish()
		var crowds sync.WaitGroup
		for range 24 { // each at a random node: some at the one that hiccups
			crowds.Go(func() { w.Flood(opening, 5) })
		}
		crowds.Wait()
		faults.Run(running, w, faultLog{w}, hiccups)
		sleep(running, recovery)
		p.testify(running)
		stop()
		p.wait()
		sleep(context.Background(), dying)
		p.stop()
		w.stop()
		w.judge(hiccups)
	})
	if r.Hit[faults.Hiccups.String()] == 0 || r.Checked["I2 owner stalled"] < 5 {
		t.Errorf("hiccups hit %d times, and %d ends were judged by them, want several", r.Hit[faults.Hiccups.String()],
			r.Checked["I2 owner stalled"])
	}
}
