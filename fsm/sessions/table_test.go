package sessions

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

	"holdfast/fsm/digest"
	"holdfast/session"
)

// drawSession draws a session with an id that others are likely to have or to be near to.
func drawSession(t *rapid.T) *Row {
	node := session.Node(rapid.IntRange(1, 3).Draw(t, "node"))
	low := rapid.OneOf(
		rapid.Uint64Range(0, 60),
		rapid.Custom(func(t *rapid.T) uint64 { return rapid.Uint64Range(0, 400).Draw(t, "ms") << 16 }),
		rapid.SampledFrom([]uint64{1<<56 - 1, 1 << 40}),
	).Draw(t, "low")
	r := &Row{
		ID: max(session.ID(node)<<56|session.ID(low), 1), Owner: node, TimeoutMS: 10_000,
	}
	number := rapid.OneOf(rapid.Uint64Range(0, 500), rapid.SampledFrom([]uint64{math.MaxUint64, 1 << 63, 1 << 40}))
	r.Attachment, r.OpenedIndex, r.OpenedMS = number.Draw(t, "attachment"), number.Draw(t, "index"), r.ID.MS()
	if rapid.IntRange(0, 3).Draw(t, "unusual") > 0 {
		return r
	}
	r.OpenedMS = number.Draw(t, "ms")
	r.TimeoutMS = rapid.SampledFrom([]uint32{1, 10_000, 10_001, math.MaxUint32}).Draw(t, "timeout")
	r.Owner = session.Node(rapid.IntRange(0, 255).Draw(t, "owner"))
	r.Instance, r.Attempt = number.Draw(t, "instance"), number.Draw(t, "attempt")
	if n := rapid.IntRange(0, 3).Draw(t, "labels"); n > 0 {
		labels := make(session.Labels, n)
		for i := range labels {
			length := rapid.SampledFrom([]int{0, 1, 20, 127, 128, 200}).Draw(t, "length")
			labels[i] = session.Label{Key: strings.Repeat("k", i+1), Value: strings.Repeat("v", length)}
		}
		r.Labels = &labels
	}
	return r
}

// checkBlocks checks what get, set and drop rest on.
func checkBlocks(t *rapid.T, s *Table) {
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
			view Table
			want map[session.ID]Row
		}
		s, want := New(), map[session.ID]Row{}
		var copies []copied
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			r := drawSession(t)
			had, has := want[r.ID]
			switch rapid.IntRange(0, 20).Draw(t, "what") {
			case 0:
				copies = append(copies, copied{s.Freeze(), maps.Clone(want)})
			case 1, 2, 3, 4, 5:
				ids := slices.Sorted(maps.Keys(want))
				if len(ids) > 0 && rapid.Bool().Draw(t, "present") {
					r.ID = rapid.SampledFrom(ids).Draw(t, "id")
				}
				s.remove(r.ID)
				delete(want, r.ID)
			case 6, 7:
				dropMany(t, &s, want)
			default:
				given := *r
				old, replaced := s.Set(&given)
				if replaced != has || replaced && !reflect.DeepEqual(*old, had) {
					t.Fatalf("set replaced %+v, %v; want %+v, %v", old, replaced, had, has)
				}
				want[r.ID] = *r
			}
			if got, ok := s.Get(r.ID); ok != contains(want, r.ID) || ok && !reflect.DeepEqual(*got, want[r.ID]) {
				t.Fatalf("got %+v, %v; want %+v", got, ok, want[r.ID])
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
func dropMany(t *rapid.T, s *Table, want map[session.ID]Row) {
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
	d := s.Remover()
	for _, id := range ids {
		var r Row
		if found := d.Find(id, &r); found != contains(want, id) || found && !reflect.DeepEqual(r, want[id]) {
			t.Fatalf("found %+v, %v; want %+v", r, found, want[id])
		} else if found && rapid.IntRange(0, 3).Draw(t, "drop") > 0 {
			d.Remove()
			delete(want, id)
		}
	}
	d.End()
}

func contains(m map[session.ID]Row, id session.ID) bool {
	_, ok := m[id]
	return ok
}

func checkSessions(t *rapid.T, s *Table, want map[session.ID]Row) {
	t.Helper()
	ids := slices.Sorted(maps.Keys(want))
	if got := s.list(); len(got) != len(ids) || s.Len() != len(ids) {
		t.Fatalf("%d sessions, %d are counted, want %d", len(got), s.Len(), len(ids))
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
	s.Ascend(from, func(r *Row) bool {
		if at == len(ids) || r.ID != ids[at] {
			t.Fatalf("from %v on, %v is at %d of %v", from, r.ID, at, ids)
		}
		at++
		return at%7 != 0
	})
}

// packedBytes returns what the blocks of the sessions take, with their share of the tree.
func packedBytes(s *Table) int {
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
	opened := func(i int) *Row {
		node, ms := session.Node(i%3+1), uint64(i/10)
		return &Row{
			ID: session.ID(node)<<56 | session.ID(ms)<<16 | session.ID(i%10), Owner: node, TimeoutMS: 30_000,
			Attachment: uint64(i + 1), OpenedIndex: uint64(i / 300), OpenedMS: ms,
		}
	}
	moved := func(i int) *Row {
		r := opened(i)
		r.Owner, r.Instance, r.Attempt, r.Attachment = 9, math.MaxUint64, 1, uint64(count+i)
		return r
	}
	for name, c := range map[string]struct {
		most int // bytes for each session that is left
		make func(s *Table) (left int)
	}{
		"opened": {16, func(*Table) int { return count }},
		"labelled": {29, func(s *Table) int {
			for i := range count {
				r := opened(i)
				r.Labels = &labels
				s.Set(r)
			}
			return count
		}},
		"moved": {45, func(s *Table) int {
			for i := range count {
				s.Set(moved(i))
			}
			return count
		}},
		"one in eight left": {60, func(s *Table) int {
			for i := range count {
				if i/3%8 != 0 {
					s.remove(opened(i).ID)
				}
			}
			return count / 8
		}},
		"none left": {0, func(s *Table) int {
			for i := range count {
				s.remove(opened(count - 1 - i).ID)
			}
			return 0
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := New()
			for i := range count {
				s.Set(opened(i))
			}
			left := c.make(&s)
			got := packedBytes(&s)
			if got > c.most*left || s.Len() != left {
				t.Errorf("%d sessions take %d bytes, %d each, want %d each", s.Len(), got, got/max(left, 1), c.most)
			}
			t.Logf("%d bytes for each of %d", got/max(left, 1), left)
		})
	}
}

// Local sessions of one block of ids may become global from the highest id down, also behind a full block.
func TestSessionsDownwards(t *testing.T) {
	const count = 10_000
	for _, behind := range []bool{false, true} {
		s, before := New(), 0
		add := func(n int) {
			s.Set(&Row{ID: session.ID(1<<56 + n), Owner: 1, TimeoutMS: 30_000, Attachment: uint64(n)})
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
		if got := packedBytes(&s); got > 24*count || s.Len() != before+count {
			t.Errorf("behind %d sessions, %d take %d bytes, want at most 24 each", before, s.Len(), got)
		}
		if !slices.IsSortedFunc(s.list(), func(a, b *Row) int { return cmp.Compare(a.ID, b.ID) }) {
			t.Error("the sessions are not in the order of their ids")
		}
	}
}

// A block that was split holds no labels of the sessions that it gave away.
func TestASplitBlockHoldsItsOwnLabelsOnly(t *testing.T) {
	const count, size = 400, 16 << 10
	s := New()
	before := heap()
	set := func(i int, r Row) {
		r.ID, r.TimeoutMS = session.ID(1<<56+i), 30_000
		r.Labels = &session.Labels{{Key: "a", Value: fmt.Sprintf("%0*d", size, i)}}
		s.Set(&r)
	}
	for i := range count {
		set(i, Row{Owner: 1, Attachment: 1})
	}
	blocks := s.blocks.Len()
	for i := range count { // clients that come back make the records larger, so blocks are split
		set(i, Row{Owner: 2, Attachment: 1 << 40, Instance: 1 << 60, Attempt: 1})
	}
	if s.blocks.Len() == blocks {
		t.Fatalf("none of %d blocks was split", blocks)
	}
	if took := heap() - before; took > count*size*5/4 {
		t.Errorf("%d sessions with labels of %d bytes take %d bytes", count, size, took)
	}
	runtime.KeepAlive(&s)
}

// list returns all sessions in the order of their ids.
func (s *Table) list() []*Row {
	var all []*Row
	s.Ascend(0, func(r *Row) bool {
		copied := *r
		all = append(all, &copied)
		return true
	})
	return all
}

// remove drops a session.
func (s *Table) remove(id session.ID) {
	d := s.Remover()
	defer d.End()
	if d.Find(id, &Row{}) {
		d.Remove()
	}
}

// Damaged memory makes nothing hang or panic, whichever bit of a block it changes. The rows then differ where the
// damage is in a part that they have: a scrub finds it (C1 digest comparison).
func TestDamagedBlocks(t *testing.T) {
	table := func() (s Table, records []byte) {
		s = New()
		s.Set(&Row{
			ID: 1<<56 | 1, Owner: 1, TimeoutMS: 4000, Attachment: 1, OpenedIndex: 1, OpenedMS: 1000,
			Labels: &session.Labels{{Key: "a", Value: "b"}},
		})
		_, b, _ := s.blocks.Min()
		return s, b.records
	}
	hash := func(s *Table) (h digest.Set) {
		s.Ascend(0, func(r *Row) bool { h.Add(r.Canonical(nil)); return true })
		return h
	}
	sound, records := table()
	for bit := range 8 * len(records) {
		s, damaged := table()
		damaged[bit/8] ^= 1 << (bit % 8)
		hash(&s)
		s.Get(1<<56 | 1)
	}
	last := len(records) - 1
	for name, damage := range map[string]struct {
		at  int
		bit byte
	}{
		"record": {1, hasTimeout}, "length of a record": {0, 1 << 7}, "label": {last, 1},
		"length of a label": {last - 1, 1 << 6},
	} {
		s, records := table()
		if records[damage.at] ^= damage.bit; hash(&s) == hash(&sound) {
			t.Errorf("%s: no row differs", name)
		}
	}
}

// heap returns the bytes of the objects that are reachable.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
