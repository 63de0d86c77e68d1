package fsm

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast/session"
)

// drawSession draws a session with an id that others are likely to have or to be near to.
func drawSession(t *rapid.T) *storedSession {
	node := session.Node(rapid.IntRange(1, 3).Draw(t, "node"))
	low := rapid.OneOf(
		rapid.Uint64Range(0, 60),
		rapid.Custom(func(t *rapid.T) uint64 { return rapid.Uint64Range(0, 400).Draw(t, "ms") << 16 }),
		rapid.SampledFrom([]uint64{1<<56 - 1, 1 << 40}),
	).Draw(t, "low")
	r := &storedSession{
		id: max(session.ID(node)<<56|session.ID(low), 1), owner: node, timeoutMS: 10_000,
	}
	number := rapid.OneOf(rapid.Uint64Range(0, 500), rapid.SampledFrom([]uint64{math.MaxUint64, 1 << 63, 1 << 40}))
	r.attachment, r.openedIndex, r.openedMS = number.Draw(t, "attachment"), number.Draw(t, "index"), r.id.MS()
	if rapid.IntRange(0, 3).Draw(t, "unusual") > 0 {
		return r
	}
	r.openedMS = number.Draw(t, "ms")
	r.timeoutMS = rapid.SampledFrom([]uint32{1, 10_000, 10_001, math.MaxUint32}).Draw(t, "timeout")
	r.owner = session.Node(rapid.IntRange(0, 255).Draw(t, "owner"))
	r.instance, r.attempt = number.Draw(t, "instance"), number.Draw(t, "attempt")
	if n := rapid.IntRange(0, 3).Draw(t, "labels"); n > 0 {
		labels := make(session.Labels, n)
		for i := range labels {
			length := rapid.SampledFrom([]int{0, 1, 20, 127, 128, 200}).Draw(t, "length")
			labels[i] = session.Label{Key: strings.Repeat("k", i+1), Value: strings.Repeat("v", length)}
		}
		r.labels = &labels
	}
	return r
}

// checkBlocks checks what get, set and drop rest on.
func checkBlocks(t *rapid.T, s *sessions) {
	t.Helper()
	var last session.ID
	s.blocks.Scan(func(key session.ID, b *block) bool {
		n, far := 0, 0
		for c := b.walk(); c.step(); n++ {
			if c.id < key || c.id.Node() != key.Node() || n > 0 && c.id <= last || key <= last && n == 0 {
				t.Fatalf("session %v is in the block of %v behind %v", c.id, key, last)
			}
			if last = c.id; c.parts&hasFar != 0 {
				far++
			}
		}
		if n == 0 || key != b.base.id || far != len(b.far) {
			t.Fatalf("block of %v with base %v: %d sessions, %d far labels of %d", key, b.base.id, n, far, len(b.far))
		}
		if len(b.records) > 2*blockSize || cap(b.records)-len(b.records) > blockSize/2 {
			t.Fatalf("block of %d bytes has room for %d", len(b.records), cap(b.records))
		}
		return true
	})
}

// Sessions are as in a map, and frozen copies of every age stay as they were.
func TestSessionsAreLikeAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type copied struct {
			view sessions
			want map[session.ID]storedSession
		}
		s, want := newSessions(), map[session.ID]storedSession{}
		var copies []copied
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			r := drawSession(t)
			had, has := want[r.id]
			switch rapid.IntRange(0, 20).Draw(t, "what") {
			case 0:
				copies = append(copies, copied{s.freeze(), maps.Clone(want)})
			case 1, 2, 3, 4, 5:
				ids := slices.Sorted(maps.Keys(want))
				if len(ids) > 0 && rapid.Bool().Draw(t, "present") {
					r.id = rapid.SampledFrom(ids).Draw(t, "id")
				}
				s.drop(r.id)
				delete(want, r.id)
			case 6, 7:
				dropMany(t, &s, want)
			default:
				given := *r
				old, replaced := s.set(&given)
				if replaced != has || replaced && !reflect.DeepEqual(*old, had) {
					t.Fatalf("set replaced %+v, %v; want %+v, %v", old, replaced, had, has)
				}
				want[r.id] = *r
			}
			if got, ok := s.get(r.id); ok != contains(want, r.id) || ok && !reflect.DeepEqual(*got, want[r.id]) {
				t.Fatalf("got %+v, %v; want %+v", got, ok, want[r.id])
			}
			checkBlocks(t, &s)
		}
		for _, one := range append(copies, copied{s, want}) {
			checkSessions(t, &one.view, one.want)
		}
	})
}

// dropMany looks for many sessions as one command does, in the order of their ids or in any order, some of them twice
// and some that do not exist, and drops most of them.
func dropMany(t *rapid.T, s *sessions, want map[session.ID]storedSession) {
	ids := slices.Sorted(maps.Keys(want))
	if len(ids) == 0 {
		return
	}
	ids = slices.Clip(ids[rapid.IntRange(0, len(ids)-1).Draw(t, "first"):])
	for range rapid.IntRange(0, 5).Draw(t, "others") {
		other := rapid.SampledFrom(ids).Draw(t, "id") + session.ID(rapid.IntRange(-1, 1).Draw(t, "beside"))
		ids = append(ids, other)
	}
	if slices.Sort(ids); rapid.Bool().Draw(t, "shuffled") {
		ids = rapid.Permutation(ids).Draw(t, "ids")
	}
	d := drops{sessions: s}
	for _, id := range ids {
		var r storedSession
		if found := d.find(id, &r); found != contains(want, id) || found && !reflect.DeepEqual(r, want[id]) {
			t.Fatalf("found %+v, %v; want %+v", r, found, want[id])
		} else if found && rapid.IntRange(0, 3).Draw(t, "drop") > 0 {
			d.drop()
			delete(want, id)
		}
	}
	d.end()
}

func contains(m map[session.ID]storedSession, id session.ID) bool {
	_, ok := m[id]
	return ok
}

func checkSessions(t *rapid.T, s *sessions, want map[session.ID]storedSession) {
	t.Helper()
	ids := slices.Sorted(maps.Keys(want))
	if got := s.list(); len(got) != len(ids) || s.size() != len(ids) {
		t.Fatalf("%d sessions, %d are counted, want %d", len(got), s.size(), len(ids))
	}
	for i, got := range s.list() {
		if !reflect.DeepEqual(*got, want[ids[i]]) {
			t.Fatalf("session %d is %+v, want %+v", i, got, want[ids[i]])
		}
	}
	from := session.ID(rapid.Uint64().Draw(t, "from"))
	if len(ids) > 0 {
		from = rapid.SampledFrom(ids).Draw(t, "from") + session.ID(rapid.IntRange(-1, 1).Draw(t, "beside"))
	}
	at, _ := slices.BinarySearch(ids, from)
	s.ascend(from, func(r *storedSession) bool {
		if at == len(ids) || r.id != ids[at] {
			t.Fatalf("from %v on, %v is at %d of %v", from, r.id, at, ids)
		}
		at++
		return at%7 != 0
	})
}

// packedBytes returns what the blocks of the sessions take, with their share of the tree.
func packedBytes(s *sessions) int {
	const blockStruct, inTree = 96, 40
	n := 0
	s.blocks.Scan(func(_ session.ID, b *block) bool {
		n += cap(b.records) + blockStruct + inTree
		return true
	})
	return n
}

// Memory for a session, in states that came about in different ways.
func TestSessionsAreSmall(t *testing.T) {
	const count = 30_000
	labels := session.Labels{{Key: "app", Value: "billing"}}
	// Sessions are opened at three nodes, 10 in a millisecond, 300 in an entry.
	opened := func(i int) *storedSession {
		node, ms := session.Node(i%3+1), uint64(i/10)
		return &storedSession{
			id: session.ID(node)<<56 | session.ID(ms)<<16 | session.ID(i%10), owner: node, timeoutMS: 30_000,
			attachment: uint64(i + 1), openedIndex: uint64(i / 300), openedMS: ms,
		}
	}
	moved := func(i int) *storedSession {
		r := opened(i)
		r.owner, r.instance, r.attempt, r.attachment = 9, math.MaxUint64, 1, uint64(count+i)
		return r
	}
	for name, c := range map[string]struct {
		most int // bytes for each session that is left
		make func(s *sessions) (left int)
	}{
		"opened": {16, func(*sessions) int { return count }},
		"labelled": {29, func(s *sessions) int {
			for i := range count {
				r := opened(i)
				r.labels = &labels
				s.set(r)
			}
			return count
		}},
		"moved": {45, func(s *sessions) int {
			for i := range count {
				s.set(moved(i))
			}
			return count
		}},
		"one in eight left": {60, func(s *sessions) int {
			for i := range count {
				if i/3%8 != 0 {
					s.drop(opened(i).id)
				}
			}
			return count / 8
		}},
		"none left": {0, func(s *sessions) int {
			for i := range count {
				s.drop(opened(count - 1 - i).id)
			}
			return 0
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSessions()
			for i := range count {
				s.set(opened(i))
			}
			left := c.make(&s)
			got := packedBytes(&s)
			if got > c.most*left || s.size() != left {
				t.Errorf("%d sessions take %d bytes, %d each, want %d each", s.size(), got, got/max(left, 1), c.most)
			}
			t.Logf("%d bytes for each of %d", got/max(left, 1), left)
		})
	}
}

// Local sessions of one block of ids may become global from the highest id down, also behind a full block.
func TestSessionsDownwards(t *testing.T) {
	const count = 10_000
	for _, behind := range []bool{false, true} {
		s, before := newSessions(), 0
		add := func(n int) {
			s.set(&storedSession{id: session.ID(1<<56 + n), owner: 1, timeoutMS: 30_000, attachment: uint64(n)})
		}
		for ; behind && s.blocks.Len() < 2; before++ {
			add(before)
		}
		if behind {
			before--
			s.blocks.Delete(session.ID(1<<56 + before)) // the block of the first session for which there was no room
			s.count--
		}
		for i := range count {
			add(3*count - i)
		}
		if got := packedBytes(&s); got > 24*count || s.size() != before+count {
			t.Errorf("behind %d sessions, %d take %d bytes, want at most 24 each", before, s.size(), got)
		}
		if !slices.IsSortedFunc(s.list(), func(a, b *storedSession) int { return cmp.Compare(a.id, b.id) }) {
			t.Error("the sessions are not in the order of their ids")
		}
	}
}

// A block that was split holds no labels of the sessions that it gave away.
func TestASplitBlockHoldsItsOwnLabelsOnly(t *testing.T) {
	const count, size = 400, 16 << 10
	s := newSessions()
	before := heap()
	set := func(i int, r storedSession) {
		r.id, r.timeoutMS = session.ID(1<<56+i), 30_000
		r.labels = &session.Labels{{Key: "a", Value: fmt.Sprintf("%0*d", size, i)}}
		s.set(&r)
	}
	for i := range count {
		set(i, storedSession{owner: 1, attachment: 1})
	}
	blocks := s.blocks.Len()
	for i := range count { // clients that come back make the records larger, so blocks are split
		set(i, storedSession{owner: 2, attachment: 1 << 40, instance: 1 << 60, attempt: 1})
	}
	if s.blocks.Len() == blocks {
		t.Fatalf("none of %d blocks was split", blocks)
	}
	if took := heap() - before; took > count*size*5/4 {
		t.Errorf("%d sessions with labels of %d bytes take %d bytes", count, size, took)
	}
	runtime.KeepAlive(&s)
}

// A request id takes little memory, and so does what is left of a crowd.
func TestRequestsAreSmall(t *testing.T) {
	r := newReplica()
	const count, entries = 100_000, 100
	before := heap()
	for e := range entries {
		for i := range count / entries {
			id := session.RequestID{byte(e), byte(i), byte(i >> 8), byte(e >> 8), 1}
			r.tables.requests.add(&request{id: id, session: session.ID(i), index: uint64(e)})
		}
	}
	if took := heap() - before; took > 40*count {
		t.Errorf("%d request ids take %d bytes, want at most 40 each", count, took)
	}
	for range count - 10 {
		r.tables.requests.dropOldest()
	}
	if took := int64(heap() - before); took > 64<<10 {
		t.Errorf("10 request ids of %d take %d bytes", count, took)
	}
	if got := r.tables.requests.list(); len(got) != 10 || got[9].index != entries-1 {
		t.Errorf("left are %v", got)
	}
}

// Requests are as in a list, and frozen copies of every age stay as they were.
func TestRequestsAreLikeAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type copied struct {
			view requests
			want []request
		}
		q := newRequests()
		var want []request
		var copies []copied
		index, next := uint64(0), 0
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				copies = append(copies, copied{q.freeze(), slices.Clone(want)})
			case 1:
				for range min(rapid.IntRange(0, 700).Draw(t, "forgotten"), len(want)) {
					got, ok := q.oldest()
					if !ok || got != want[0] {
						t.Fatalf("the oldest is %v, %v; want %v", got, ok, want[0])
					}
					q.dropOldest()
					want = want[1:]
				}
			default:
				for range rapid.IntRange(1, 400).Draw(t, "opens") {
					index += rapid.SampledFrom([]uint64{0, 0, 1, 300, 1 << 15, 1<<16 - 1, 1 << 16, 1 << 50}).Draw(t, "gap")
					next++
					r := request{id: session.RequestID{byte(next), byte(next >> 8)}, session: session.ID(next), index: index}
					q.add(&r)
					want = append(want, r)
				}
			}
			checkRequests(t, &q, want)
			for _, r := range want {
				if got, ok := q.find(r.id); !ok || got != r {
					t.Fatalf("%x is %v, %v; want %v", r.id, got, ok, r)
				}
			}
			for n := range next - len(want) { // those that were forgotten, and the next
				for _, id := range []int{n + 1, next + n + 1} {
					if got, ok := q.find(session.RequestID{byte(id), byte(id >> 8)}); ok {
						t.Fatalf("%d is %v", id, got)
					}
				}
			}
		}
		for _, one := range copies {
			checkRequests(t, &one.view, one.want)
		}
	})
}

func checkRequests(t *rapid.T, q *requests, want []request) {
	t.Helper()
	if got := q.list(); !slices.Equal(got, want) || q.size() != len(want) {
		t.Fatalf("%d requests, %d are counted, want %d", len(got), q.size(), len(want))
	}
}

// No single open waits for a large table to grow.
func TestRequestIndexGrowsInParts(t *testing.T) {
	q := newRequests()
	size := func() (all int) {
		for i := range q.index.parts {
			all += len(q.index.parts[i].marks)
		}
		return all
	}
	const count = 200_000
	for i := range count {
		before := size()
		q.add(&request{id: session.RequestID{byte(i), byte(i >> 8), byte(i >> 16)}, index: 1})
		if grew := size() - before; grew > count/32 {
			t.Fatalf("at %d ids the index grew by %d slots at once", i, grew)
		}
	}
}
