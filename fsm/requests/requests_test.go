package requests

import (
	"runtime"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"holdfast/session"
)

// Damaged memory makes nothing hang or panic: a scrub finds it (C1 digest comparison), also after the request ids were
// forgotten.
func TestDamagedRequestIDsAreForgotten(t *testing.T) {
	const count = 3000
	some := func(parts *[indexParts]indexPart, change func(p *indexPart, i int)) {
		for k := range parts {
			for i, mark := range parts[k].marks {
				if mark >= marks {
					change(&parts[k], i)
					break
				}
			}
		}
	}
	for name, damage := range map[string]func(q *Table){
		"id": func(q *Table) {
			for _, p := range q.pages {
				p.ids[7][3] ^= 1
			}
		},
		"mark":     func(q *Table) { some(&q.index.parts, func(p *indexPart, i int) { p.marks[i] ^= 64 }) },
		"position": func(q *Table) { some(&q.index.parts, func(p *indexPart, i int) { p.positions[i] ^= 1 << 30 }) },
		"no part":  func(q *Table) { q.index.parts = [indexParts]indexPart{} },
	} {
		t.Run(name, func(t *testing.T) {
			q := New()
			id := func(i int) session.RequestID { return session.RequestID{byte(i), byte(i >> 8), 1} }
			for i := range count {
				q.Add(&Request{ID: id(i), Session: session.ID(i), Index: uint64(i)})
			}
			damage(&q)
			for i := range count {
				q.Find(id(i))
			}
			for i := range count {
				q.DropOldest()
				q.Add(&Request{ID: id(count + i), Session: session.ID(i), Index: uint64(count + i)})
			}
			for q.Len() > 0 {
				q.DropOldest()
			}
		})
	}
}

// A request id takes little memory, and so does what is left of a crowd.
func TestRequestsAreSmall(t *testing.T) {
	q := New()
	const count, entries = 100_000, 100
	before := heap()
	for e := range entries {
		for i := range count / entries {
			id := session.RequestID{byte(e), byte(i), byte(i >> 8), byte(e >> 8), 1}
			q.Add(&Request{ID: id, Session: session.ID(i), Index: uint64(e)})
		}
	}
	if took := heap() - before; took > 40*count {
		t.Errorf("%d request ids take %d bytes, want at most 40 each", count, took)
	}
	for range count - 10 {
		q.DropOldest()
	}
	if took := int64(heap() - before); took > 64<<10 {
		t.Errorf("10 request ids of %d take %d bytes", count, took)
	}
	if got := q.list(); len(got) != 10 || got[9].Index != entries-1 {
		t.Errorf("left are %v", got)
	}
}

// Requests are as in a list, and frozen copies of every age stay as they were.
func TestRequestsAreLikeAList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type copied struct {
			view Table
			want []Request
		}
		q := New()
		var want []Request
		var copies []copied
		index, next := uint64(0), 0
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				copies = append(copies, copied{q.Freeze(), slices.Clone(want)})
			case 1:
				for range min(rapid.IntRange(0, 700).Draw(t, "forgotten"), len(want)) {
					got, ok := q.Oldest()
					if !ok || got != want[0] {
						t.Fatalf("the oldest is %v, %v; want %v", got, ok, want[0])
					}
					q.DropOldest()
					want = want[1:]
				}
			default:
				for range rapid.IntRange(1, 400).Draw(t, "opens") {
					index += rapid.SampledFrom([]uint64{0, 0, 1, 300, 1 << 15, 1<<16 - 1, 1 << 16, 1 << 50}).Draw(t, "gap")
					next++
					r := Request{ID: session.RequestID{byte(next), byte(next >> 8)}, Session: session.ID(next), Index: index}
					q.Add(&r)
					want = append(want, r)
				}
			}
			checkRequests(t, &q, want)
			for _, r := range want {
				if got, ok := q.Find(r.ID); !ok || got != r {
					t.Fatalf("%x is %v, %v; want %v", r.ID, got, ok, r)
				}
			}
			for n := range next - len(want) { // those that were forgotten, and the next
				for _, id := range []int{n + 1, next + n + 1} {
					if got, ok := q.Find(session.RequestID{byte(id), byte(id >> 8)}); ok {
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

func checkRequests(t *rapid.T, q *Table, want []Request) {
	t.Helper()
	if got := q.list(); !slices.Equal(got, want) || q.Len() != len(want) {
		t.Fatalf("%d requests, %d are counted, want %d", len(got), q.Len(), len(want))
	}
}

// No single open waits for a large table to grow.
func TestRequestIndexGrowsInParts(t *testing.T) {
	q := New()
	size := func() (all int) {
		for i := range q.index.parts {
			all += len(q.index.parts[i].marks)
		}
		return all
	}
	const count = 200_000
	for i := range count {
		before := size()
		q.Add(&Request{ID: session.RequestID{byte(i), byte(i >> 8), byte(i >> 16)}, Index: 1})
		if grew := size() - before; grew > count/32 {
			t.Fatalf("at %d ids the index grew by %d slots at once", i, grew)
		}
	}
}

// list returns all requests, the oldest first.
func (q *Table) list() []Request {
	var all []Request
	q.All(func(r Request) bool { all = append(all, r); return true })
	return all
}

// heap returns the bytes of the objects that are reachable.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
