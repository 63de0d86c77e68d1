//go:build e2e

package zk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"holdfast/test/timeout"
	"holdfast/zk/jute"
)

const (
	// bursts are the scripts of TestBursts, each of so many bursts of requests.
	bursts, burstsOfScript, requestsOfBurst = 16, 8, 40
	// manyChildren need more than one page of a list here.
	manyChildren = 1200
)

// got is an answer, and the events before it.
type got struct {
	reply

	events []event
}

// TestBursts is TestAsZooKeeper with a client that waits for no answer before it sends the next request: the answers
// come in the order of the requests, each behind the events that it shows (N-16, W-09).
func TestBursts(t *testing.T) {
	met := map[string]int{}
	theirs, ours := zookeeper(t), holdfast(t)
	rootSequence(t, theirs, ours, met)
	for seed := *first; seed < *first+bursts; seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			s := &stage{
				t: t, zxids: map[int64]int64{0: 0}, sessions: map[int64]int64{0: 0}, met: met,
				times: [2]map[int64]int64{{}, {}},
			}
			s.theirs = []*peer{{address: theirs.addresses[0]}}
			s.ours = []*peer{{address: ours.addresses[seed%uint64(len(ours.addresses))]}}
			s.connect(0)
			defer s.sweep()
			a := &author{Rand: rand.New(rand.NewPCG(seed, 1)), clients: 1}
			if seed%4 == 0 {
				s.theirs[0].fill(t)
				s.ours[0].fill(t)
				for range 8 {
					a.made = append(a.made, "/many", "/many/n-00500", "/many/n-00000", "/many/new")
				}
			}
			for range burstsOfScript {
				if s.burst(a); t.Failed() {
					return
				}
			}
		})
	}
}

// fill makes an entry with many children.
func (p *peer) fill(t *testing.T) {
	t.Helper()
	p.must(t, jute.Multi, func(e *jute.Encoder) {
		for i := range manyChildren + 1 {
			path := "/many"
			if i > 0 {
				path = fmt.Sprintf("/many/n-%05d", i-1)
			}
			e.MultiHeader(jute.MultiHeader{Op: jute.Create, Err: -1})
			e.String(path)
			e.Buffer(nil)
			e.ACLs([]jute.ACL{{Perms: 31, Scheme: "world", ID: "anyone"}})
			e.Int(jute.Persistent)
		}
		e.MultiEnd()
	})
}

// burst sends many requests to both systems, and compares what they say.
func (s *stage) burst(a *author) {
	var sent []step
	for len(sent) < requestsOfBurst {
		next := a.next()
		// Access lists are those of all, a setWatches is in no order that both systems have, and a pong and what closes a
		// connection are not in the order of requests.
		alone := []jute.Op{jute.CloseSession, jute.Auth, jute.Ping, jute.SetWatches, jute.SetWatches2}
		if next.again || slices.Contains(alone, next.op) || len(next.closes) > 0 {
			continue
		}
		sent = append(sent, next)
	}
	theirs, ours := s.theirs[0].burst(s.t, sent), s.ours[0].burst(s.t, sent)
	for i := range sent {
		path := s.compare(&sent[i], theirs[i].reply, ours[i].reply)
		if path != "" && !slices.Contains(a.made, path) {
			a.made = append(a.made, path)
		}
		if want, has := sent[i].texts(theirs[i].events), sent[i].texts(ours[i].events); !slices.Equal(want, has) {
			s.t.Errorf("events before the answer: %q, ZooKeeper %q", has, want)
		}
		if s.t.Failed() {
			var all []string
			for _, one := range sent[:i+1] {
				all = append(all, one.text)
			}
			s.t.Fatalf("the last of\n%s", strings.Join(all, "\n"))
		}
	}
}

// burst sends requests, and then reads the answers.
func (p *peer) burst(t *testing.T, all []step) []got {
	t.Helper()
	var xids []int32
	for i := range all {
		xid, err := p.send(all[i].op, all[i].body(p.zxid))
		timeout.Check(t, err)
		xids = append(xids, xid)
	}
	var answers []got
	for i, xid := range xids {
		r, err := p.receive(xid)
		if err != nil {
			timeout.Check(t, fmt.Errorf("%s: answer to %s: %w", p.address, all[i].text, err))
		}
		answers = append(answers, got{r, p.events})
		p.events = nil
	}
	return answers
}
