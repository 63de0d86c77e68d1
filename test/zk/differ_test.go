//go:build e2e

package zk

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"holdfast/test/timeout"
	"holdfast/zk/jute"
)

var (
	seeds = flag.Int("seeds", allSeeds, "scripts that TestAsZooKeeper plays")
	first = flag.Uint64("first", 1, "the first of its seeds")
	steps = flag.Int("steps", 400, "requests of a script")
)

// allSeeds are as many scripts as meet all differences.
const allSeeds = 60

// lastSteps are shown of a script that failed.
const lastSteps = 40

// stage is both systems with the same clients, and what is known to be the same in them.
type stage struct {
	t            *testing.T
	theirs, ours []*peer
	// zxids and sessions have what is ZooKeeper's and the nodes' name of the same thing.
	zxids, sessions map[int64]int64
	times           [2]map[int64]int64
	met             map[string]int
	// parted is set once a difference has left the two systems in different states.
	parted bool
	// closed are the paths, or prefixes of them, that have had access lists which were not open to all.
	closed []string
	log    []string
}

// TestAsZooKeeper plays random scripts of requests to a server of ZooKeeper and to three nodes, and compares every
// answer, code, stat and event. What differs on purpose is a table in docs/zookeeper.md.
func TestAsZooKeeper(t *testing.T) {
	met := map[string]int{}
	theirs, ours := zookeeper(t), holdfast(t)
	rootSequence(t, theirs, ours, met)
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) { play(t, theirs, ours, seed, met) })
	}
	documented := documentedDifferences(t)
	for _, id := range documented {
		if _, known := differences[id]; !known {
			t.Errorf("docs/zookeeper.md has the difference %s, and the test does not know it", id)
		}
		if met[id] == 0 && *first == 1 && *seeds >= allSeeds && !slices.Contains(mixedDifferences, id) {
			t.Errorf("no script met the difference %s", id)
		}
	}
	for id := range differences {
		if !slices.Contains(documented, id) {
			t.Errorf("docs/zookeeper.md lacks the difference %s", id)
		}
	}
	t.Logf("differences met: %v", met)
}

// documentedDifferences returns the ids in docs/zookeeper.md.
func documentedDifferences(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../docs/zookeeper.md")
	timeout.Check(t, err)
	var all []string
	for _, found := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(string(text), -1) {
		all = append(all, found[1])
	}
	return all
}

func play(t *testing.T, theirs, ours servers, seed uint64, met map[string]int) {
	t.Helper()
	const clients = 4
	s := &stage{
		t: t, zxids: map[int64]int64{0: 0}, sessions: map[int64]int64{0: 0}, met: met,
		times: [2]map[int64]int64{{}, {}},
	}
	for i := range clients {
		s.theirs = append(s.theirs, &peer{address: theirs.addresses[0]})
		s.ours = append(s.ours, &peer{address: ours.addresses[i%len(ours.addresses)]})
		s.connect(i)
	}
	defer func() {
		s.sweep()
		if t.Failed() {
			t.Logf("the last steps of seed %d:\n%s", seed, strings.Join(s.log[max(0, len(s.log)-lastSteps):], "\n"))
		}
	}()
	a := &author{Rand: rand.New(rand.NewPCG(seed, 0)), clients: clients}
	for range *steps {
		next := a.next()
		s.log = append(s.log, fmt.Sprintf("client %d: %s", next.client, next.text))
		s.closed = append(s.closed, next.closes...)
		path := s.take(&next)
		if path != "" && !slices.Contains(a.made, path) {
			a.made = append(a.made, path)
		}
		s.barrier(&next)
		if t.Failed() || s.parted {
			return
		}
	}
}

func (s *stage) connect(client int) {
	theirs, ours := s.theirs[client], s.ours[client]
	timeout.Check(s.t, timeout.Join(theirs.connect(), ours.connect()))
	s.sessions[theirs.id] = ours.id
	if theirs.timeout != ours.timeout {
		s.t.Errorf("timeout %d, ZooKeeper %d", ours.timeout, theirs.timeout)
	}
}

// take does a step, and returns the path that a create was answered with.
func (s *stage) take(next *step) string {
	theirs, ours := s.theirs[next.client], s.ours[next.client]
	if next.again {
		s.connect(next.client)
		return ""
	}
	a, errA := theirs.ask(next.op, next.body(theirs.zxid))
	b, errB := ours.ask(next.op, next.body(ours.zxid))
	if (errA != nil) != (errB != nil) || errA != nil && !errors.Is(errA, errB) {
		s.t.Fatalf("ZooKeeper: %v %v, here: %v %v", a.code, errA, b.code, errB)
	}
	made := ""
	if errA == nil {
		made = s.compare(next, a, b)
	}
	if errA != nil || next.op == jute.CloseSession {
		theirs.forget()
		ours.forget()
		s.connect(next.client)
	}
	return made
}

// writes are the operations that leave a zxid of their own.
var writes = []jute.Op{
	jute.Create, jute.Create2, jute.CreateContainer, jute.CreateTTL, jute.Delete, jute.SetData, jute.SetACL,
}

func (s *stage) compare(next *step, a, b reply) string {
	if a.code != b.code {
		s.differ(next, value{name: "code", text: fmt.Sprint(a.code)}, value{name: "code", text: fmt.Sprint(b.code)})
		return ""
	}
	if a.code == jute.OK && slices.Contains(writes, next.op) {
		s.value(next, value{name: "zxid", kind: zxid, number: a.zxid}, value{name: "zxid", kind: zxid, number: b.zxid})
	}
	if a.code != jute.OK {
		if len(a.body) != len(b.body) {
			s.t.Errorf("%d bytes behind a refusal, ZooKeeper %d", len(b.body), len(a.body))
		}
		return ""
	}
	theirs, ours := record{Decoder: jute.NewDecoder(a.body)}, record{Decoder: jute.NewDecoder(b.body)}
	theirs.answer(next.op)
	ours.answer(next.op)
	if len(theirs.all) != len(ours.all) {
		s.t.Errorf("the answer is\n%v, ZooKeeper's\n%v", ours.all, theirs.all)
		return ""
	}
	made := ""
	var lastA, lastB int64
	for i, v := range theirs.all {
		w := ours.all[i]
		switch v.kind { //nolint:exhaustive // the others are compared alone
		case zxid:
			lastA, lastB = v.number, w.number
		case moment:
			s.moment(0, lastA, v.number)
			s.moment(1, lastB, w.number)
			continue
		}
		s.value(next, v, w)
		if v.name == "path" && next.op != jute.Sync {
			made = w.text
		}
	}
	return made
}

// moment holds a time against those that other stats had for the same change.
func (s *stage) moment(of int, zxid, at int64) {
	if known, ok := s.times[of][zxid]; ok && known != at {
		s.t.Errorf("system %d: the change %#x was at %d, and is at %d", of, zxid, known, at)
	}
	s.times[of][zxid] = at
}

// value compares two values.
func (s *stage) value(next *step, theirs, ours value) {
	s.t.Helper()
	if theirs.name != ours.name {
		s.t.Errorf("%s, ZooKeeper %s", ours, theirs)
		return
	}
	switch theirs.kind { //nolint:exhaustive // the others are texts
	case zxid:
		if known, ok := s.zxids[theirs.number]; ok && known != ours.number || !ok && !s.pair(theirs.number, ours.number) {
			s.differ(next, theirs, ours)
		}
	case owner:
		if known, ok := s.sessions[theirs.number]; !ok && theirs.number == ours.number || ok && known == ours.number {
			return
		}
		s.differ(next, theirs, ours)
	default:
		if theirs.text != ours.text {
			s.differ(next, theirs, ours)
		}
	}
}

// pair notes that two zxids are of the same change, unless the order of the two systems refuses that.
func (s *stage) pair(theirs, ours int64) bool {
	for a, b := range s.zxids {
		if (a < theirs) != (b < ours) {
			return false
		}
	}
	s.zxids[theirs] = ours
	return true
}

// differ reports a difference that is none of those on purpose.
func (s *stage) differ(next *step, theirs, ours value) {
	s.t.Helper()
	for id, explains := range differences {
		if explains != nil && explains(next, theirs, ours) {
			s.met[id]++
			return
		}
	}
	s.t.Errorf("%s, ZooKeeper %s", ours, theirs)
}

// barrier waits until each client has been told what the step was to tell it, and compares the events.
func (s *stage) barrier(next *step) {
	var path jute.Encoder
	path.String("/")
	for _, all := range [][]*peer{s.theirs, s.ours} {
		xids := make([]int32, len(all))
		for i, p := range all {
			var err error
			if xids[i], err = p.send(jute.Sync, path.Bytes()); err != nil {
				s.t.Fatalf("client %d: %v", i, err)
			}
		}
		for i, p := range all {
			if _, err := p.receive(xids[i]); err != nil {
				s.t.Fatalf("client %d: %v", i, err)
			}
		}
	}
	for i, p := range s.theirs {
		theirs, ours := next.texts(p.events), next.texts(s.ours[i].events)
		p.events, s.ours[i].events = nil, nil
		theirs = s.setBack(next, i, theirs, ours)
		if ours = s.hidden(theirs, ours); !slices.Equal(theirs, ours) {
			s.t.Errorf("client %d: events %q, ZooKeeper %q", i, ours, theirs)
		}
	}
}

// texts returns events in their order. The ephemerals of a session go in no order that both systems have, and what a
// setWatches tells comes in two orders (missed-events): those are put in the order of their texts.
func (s *step) texts(all []event) []string {
	var of []string
	for _, e := range all {
		of = append(of, fmt.Sprintf("%d %d %s", e.kind, e.state, e.path))
	}
	if s.op == jute.CloseSession || s.watches != nil {
		slices.Sort(of)
	}
	return of
}

// sweep closes the sessions and removes what the script has made.
func (s *stage) sweep() {
	for _, all := range [][]*peer{s.theirs, s.ours} {
		for _, p := range all {
			if p.conn != nil {
				_, _ = p.ask(jute.CloseSession, nil)
				p.drop()
			}
		}
		p := &peer{address: all[0].address}
		if err := p.connect(); err != nil {
			s.t.Error(err)
			continue
		}
		var auth jute.Encoder
		auth.Int(0)
		auth.String("digest")
		auth.Buffer([]byte("super:test"))
		if r, err := p.ask(jute.Auth, auth.Bytes()); err != nil || r.code != jute.OK {
			s.t.Errorf("super: %v %v", r.code, err)
		}
		p.remove(s.t, "/")
		_, _ = p.ask(jute.CloseSession, nil)
		p.drop()
	}
}

// remove removes what is below an entry.
func (p *peer) remove(t *testing.T, path string) {
	t.Helper()
	var e jute.Encoder
	e.String(path)
	e.Bool(false)
	r, err := p.ask(jute.GetChildren, e.Bytes())
	if err != nil || r.code != jute.OK {
		t.Errorf("children of %s: %v %v", path, r.code, err)
		return
	}
	for _, name := range jute.NewDecoder(r.body).Strings("children") {
		child := strings.TrimSuffix(path, "/") + "/" + name
		if child == "/zookeeper" {
			continue
		}
		p.remove(t, child)
		var e jute.Encoder
		e.String(child)
		e.Int(-1)
		if r, err := p.ask(jute.Delete, e.Bytes()); err != nil || r.code != jute.OK {
			t.Errorf("remove %s: %v %v", child, r.code, err)
		}
	}
}
