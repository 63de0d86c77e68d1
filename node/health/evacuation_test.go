package health

import (
	"context"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/leader"
	"holdfast/session"
	"holdfast/test/bubble"
)

// A leader with a full disk transfers leadership to the voter with free space that has applied most, if it is up to
// date (O5 full disks).
func TestO5Successor(t *testing.T) {
	voter := func(n session.Node, applied uint64) leader.Peer {
		return leader.Peer{Node: n, Voter: true, Responsive: true, Applied: applied}
	}
	but := func(p leader.Peer, change func(p *leader.Peer)) leader.Peer {
		change(&p)
		return p
	}
	const applied = 5000
	self := but(voter(3, applied), func(p *leader.Peer) { p.Full = true })
	for name, of := range map[string]struct {
		others []leader.Peer
		want   session.Node
	}{
		"the one that has applied most": {[]leader.Peer{voter(1, 4900), voter(2, applied)}, 2},
		"not one with a full disk": {[]leader.Peer{
			voter(1, 4900), but(voter(2, applied), func(p *leader.Peer) { p.Full = true }),
		}, 1},
		"not one that is drained": {[]leader.Peer{
			voter(1, 4900), but(voter(2, applied), func(p *leader.Peer) { p.Draining = true }),
		}, 1},
		"not a silent one": {[]leader.Peer{
			voter(1, 4900), but(voter(2, applied), func(p *leader.Peer) { p.Responsive = false }),
		}, 1},
		"not without a vote":          {[]leader.Peer{but(voter(2, applied), func(p *leader.Peer) { p.Voter = false })}, 0},
		"not one that is far behind":  {[]leader.Peer{voter(1, applied-upToDate-1)}, 0},
		"one that is a little behind": {[]leader.Peer{voter(1, applied-upToDate)}, 1},
		"nobody":                      {nil, 0},
	} {
		if got := successorWithDisk(3, append(of.others, self)); got != of.want {
			t.Errorf("%s: node %d, want %d", name, got, of.want)
		}
	}
}

// A leader with a full disk tries to transfer leadership at once, and then once a minute, while it leads and its disk
// is full (O5).
func TestO5OneTransferAMinute(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		full, leads := true, true
		var tried []time.Duration
		begun := time.Now()
		d := NewDrain(DrainConfig{
			Node: 3, Logger: hclog.NewNullLogger(), Leads: func() bool { return leads },
			Peers:    func() []leader.Peer { return []leader.Peer{{Node: 1, Voter: true, Responsive: true}} },
			DiskFull: func() bool { return full }, DisksFull: func() bool { return true },
			TransferTo: func(context.Context, session.Node) error {
				tried = append(tried, time.Since(begun))
				return session.ErrTransferTimeout
			},
		})
		for range 1500 { // 150 s
			d.evacuation.step(t.Context())
			time.Sleep(drainPass)
		}
		full = false
		for range 600 {
			d.evacuation.step(t.Context())
			time.Sleep(drainPass)
		}
		full, leads = true, false
		d.evacuation.step(t.Context())
		if len(tried) != 3 || tried[0] != 0 || tried[1] != time.Minute || tried[2] != 2*time.Minute {
			t.Errorf("tried after %v, want after 0, 1 and 2 minutes", tried)
		}
	})
}
