//go:build e2e

package zk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"holdfast/zk/jute"
)

const (
	// mixedSeeds are as many scripts of TestMixedWatches as meet all of its differences, many times.
	mixedSeeds, mixedSteps = 50, 300
	mixedClients           = 3
	// maxAway bounds the steps for which a client is away.
	maxAway = 8
)

// mixedPaths are few, and most are below one another: watches of several kinds meet on one path and above it.
var mixedPaths = []string{"/m", "/m/a", "/m/a/b", "/m/a/b/c", "/m/d"}

// mixed is one script of TestMixedWatches: both systems, and what a model of each knows of the clients' watches.
type mixed struct {
	*stage
	*rand.Rand
	entries entries
	clients [mixedClients]*watching
}

// watching is a client of both systems.
type watching struct {
	theirs newestKind
	ours   everyKind
	// gone is for how many steps the client stays away; 0 of one that is connected.
	gone int
	// seen is the newest request that it knew of when it left, lists the watches that it had then.
	seen  int
	lists [watchLists][]string
}

// TestMixedWatches plays random scripts to ZooKeeper and to three nodes in which a client has watches of all kinds on
// one path and on the paths above it, removes some of them, asks for them, and brings them back after it was away. It
// compares every answer and every event in its order. A model of each system's watches says which events are to differ:
// where the models agree, so must the systems.
func TestMixedWatches(t *testing.T) {
	met := map[string]int{}
	theirs, ours := zookeeper(t), holdfast(t)
	rootSequence(t, theirs, ours, met)
	for seed := range uint64(mixedSeeds) {
		t.Run(fmt.Sprint("seed ", *first+seed), func(t *testing.T) { playMixed(t, theirs, ours, *first+seed, met) })
	}
	documented := documentedDifferences(t)
	for _, id := range mixedDifferences {
		if !slices.Contains(documented, id) {
			t.Errorf("docs/zookeeper.md lacks the difference %s", id)
		}
		if met[id] == 0 && *first == 1 {
			t.Errorf("no script met the difference %s", id)
		}
	}
	t.Logf("differences met: %v; events: %d in the same order, %d missed ones brought back", met, met["events"],
		met["brought back"])
	if met["events"] == 0 || met["brought back"] == 0 {
		t.Error("no events were compared")
	}
}

func playMixed(t *testing.T, theirs, ours servers, seed uint64, met map[string]int) {
	t.Helper()
	m := &mixed{
		stage:   &stage{t: t, sessions: map[int64]int64{0: 0}, met: met},
		Rand:    rand.New(rand.NewPCG(seed, 1)),
		entries: newEntries(),
	}
	for i := range m.clients {
		m.theirs = append(m.theirs, &peer{address: theirs.addresses[0]})
		m.ours = append(m.ours, &peer{address: ours.addresses[i]})
		m.connect(i)
		m.clients[i] = newWatching()
	}
	defer func() {
		m.sweep()
		if t.Failed() {
			t.Logf("the last steps of seed %d:\n%s", seed, strings.Join(m.log[max(0, len(m.log)-lastSteps):], "\n"))
		}
	}()
	for range mixedSteps {
		m.step()
		if t.Failed() {
			return
		}
	}
}

// step does one thing with one client, and compares what all clients were told.
func (m *mixed) step() {
	client := m.IntN(mixedClients)
	c := m.clients[client]
	switch {
	case c.gone > 1:
		c.gone--
		return
	case c.gone == 1:
		c.gone = 0
		m.returns(client)
	case m.IntN(15) == 0:
		m.leaves(client)
	case m.IntN(2) == 0:
		m.changes(client)
	default:
		m.watches(client)
	}
}

func (m *mixed) path() string { return mixedPaths[m.IntN(len(mixedPaths))] }

func (m *mixed) note(client int, format string, args ...any) {
	m.log = append(m.log, fmt.Sprintf("client %d: ", client)+fmt.Sprintf(format, args...))
}

// both sends a request to both systems, and returns their codes.
func (m *mixed) both(client int, op jute.Op, body []byte) (theirs, ours jute.Code) {
	m.t.Helper()
	a, errA := m.theirs[client].ask(op, body)
	b, errB := m.ours[client].ask(op, body)
	if errA != nil || errB != nil {
		m.t.Fatalf("%v: ZooKeeper %v, here %v", op, errA, errB)
	}
	return a.code, b.code
}

// alike is both, for requests that both systems answer alike.
func (m *mixed) alike(client int, op jute.Op, body []byte) jute.Code {
	m.t.Helper()
	theirs, ours := m.both(client, op, body)
	if theirs != ours {
		m.t.Fatalf("%v: %v, ZooKeeper %v", op, ours, theirs)
	}
	return ours
}

// changes makes a change, or several at once.
func (m *mixed) changes(client int) {
	var e jute.Encoder
	ops := make([]change, 1+m.IntN(2)*m.IntN(4))
	for i := range ops {
		ops[i] = change{kind: []eventKind{created, created, deleted, dataChanged}[m.IntN(4)], path: m.path()}
		if len(ops) > 1 {
			e.MultiHeader(jute.MultiHeader{Op: ops[i].op(), Err: -1})
		}
		ops[i].record(&e)
	}
	op := ops[0].op()
	if len(ops) > 1 {
		e.MultiEnd()
		op = jute.Multi
	}
	m.note(client, "%v", ops)
	done := m.entries.valid(ops)
	code := m.alike(client, op, e.Bytes())
	if op != jute.Multi && (code == jute.OK) != done {
		m.t.Fatalf("%v: %v, the model says %v", ops, code, done)
	}
	if !done {
		ops = nil
	}
	m.told(func(c *watching) (theirs, ours []string) {
		for _, one := range ops {
			theirs, ours = append(theirs, c.theirs.hear(one)...), append(ours, c.ours.hear(one)...)
		}
		return theirs, ours
	}, "newest-kind")
}

// watches adds, removes, or asks for a watch.
func (m *mixed) watches(client int) {
	var e jute.Encoder
	c, path := m.clients[client], m.path()
	e.String(path)
	is := m.entries.is(path)
	op := []jute.Op{
		jute.Exists, jute.GetData, jute.GetChildren, jute.GetChildren2, jute.AddWatch, jute.AddWatch, jute.RemoveWatches,
		jute.CheckWatches,
	}[m.IntN(8)]
	switch op { //nolint:exhaustive // the others are reads
	case jute.AddWatch:
		how := m.IntN(2)
		e.Int(int32(how))
		m.note(client, "%v %s mode %d", op, path, how)
		m.alike(client, op, e.Bytes())
		c.theirs.lasting(path, []mode{persistent, recursive}[how])
		c.ours.put(path, []int{persistentList, recursiveList}[how], true)
	case jute.RemoveWatches, jute.CheckWatches:
		kind := int32(1 + m.IntN(3))
		e.Int(kind)
		m.note(client, "%v %s type %d", op, path, kind)
		m.removes(client, op, path, kind, e.Bytes())
	default:
		e.Bool(true)
		m.note(client, "%v %s", op, path)
		m.alike(client, op, e.Bytes())
		if is || op == jute.Exists {
			list := listOf(op, is)
			c.theirs.once(path, list)
			c.ours.put(path, list, true)
		}
	}
	m.told(func(*watching) (theirs, ours []string) { return nil, nil }, "")
}

// removes removes watches, or asks for them.
func (m *mixed) removes(client int, op jute.Op, path string, kind int32, body []byte) {
	c := m.clients[client]
	theirs, ours := m.both(client, op, body)
	codes := map[bool]jute.Code{true: jute.OK, false: jute.NoWatcher}
	has, had := c.theirs.has(path, kind), c.ours.has(path, kind)
	if op == jute.RemoveWatches {
		c.theirs.remove(path, kind)
		c.ours.remove(path, kind)
	}
	// ZooKeeper's checkWatches says yes too if any client watches the path: that is the difference check-watches.
	if codes[had] != ours || codes[has] != theirs && (op == jute.RemoveWatches || theirs != jute.OK) {
		m.t.Errorf("%v, ZooKeeper %v; the models say %v and %v", ours, theirs, codes[had], codes[has])
	}
	if op == jute.RemoveWatches && has != had {
		m.met["half-a-watch"]++
	}
}

// leaves ends a client's connection for a while.
func (m *mixed) leaves(client int) {
	c := m.clients[client]
	c.gone = 1 + m.IntN(maxAway)
	m.note(client, "leaves for %d", c.gone)
	m.theirs[client].drop()
	m.ours[client].drop()
	c.seen, c.lists = m.entries.requests, c.ours.lists()
	c.theirs, c.ours = newWatching().theirs, newWatching().ours
}

// returns brings a client back, with the watches that it had.
func (m *mixed) returns(client int) {
	c := m.clients[client]
	m.connect(client)
	m.note(client, "comes back with %q", c.lists)
	for _, p := range []*peer{m.theirs[client], m.ours[client]} {
		var e jute.Encoder
		e.Long(p.zxid)
		for _, list := range c.lists {
			e.Strings(list)
		}
		if r, err := p.ask(jute.SetWatches2, e.Bytes()); err != nil || r.code != jute.OK {
			m.t.Fatalf("setWatches2: %v %v", r.code, err)
		}
	}
	theirs := c.theirs.again(c.lists, c.seen, &m.entries)
	ours := c.ours.again(c.lists, c.seen, &m.entries)
	m.met["brought back"] += len(ours)
	m.told(func(of *watching) (a, b []string) {
		if of == c {
			return theirs, ours
		}
		return nil, nil
	}, "missed-events")
}

// told waits until all clients were told what there is to tell, and compares that with what the models say. id is the
// difference if the models do not say the same.
func (m *mixed) told(want func(*watching) (theirs, ours []string), id string) {
	m.t.Helper()
	m.sync()
	for i, c := range m.clients {
		wantTheirs, wantOurs := want(c)
		theirs, ours := heard(m.theirs[i]), heard(m.ours[i])
		if !slices.Equal(theirs, wantTheirs) || !slices.Equal(ours, wantOurs) {
			m.t.Errorf("client %d: events\n%q, ZooKeeper\n%q; the models say\n%q and\n%q", i, ours, theirs, wantOurs,
				wantTheirs)
		}
		if !slices.Equal(theirs, ours) {
			m.met[id]++
			continue
		}
		m.met["events"] += len(ours)
	}
}

// heard returns the events that a client was told, in their order, and forgets them.
func heard(p *peer) (all []string) {
	for _, e := range p.events {
		all = append(all, eventText(eventKind(e.kind), e.path))
	}
	p.events = nil
	return all
}

// sync waits until each client that is there was told all.
func (m *mixed) sync() {
	m.t.Helper()
	var path jute.Encoder
	path.String("/")
	for i, c := range m.clients {
		if c.gone > 0 {
			continue
		}
		if code := m.alike(i, jute.Sync, path.Bytes()); code != jute.OK {
			m.t.Fatalf("sync: %v", code)
		}
	}
}
