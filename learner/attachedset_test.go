package learner

import (
	"maps"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"

	"holdfast/session"
)

func TestAttachedIsSmall(t *testing.T) {
	if got := unsafe.Sizeof(attached{}); got > 80 {
		t.Errorf("an attachment takes %d bytes, want at most 80: the next size class of the allocator is 96", got)
	}
}

// A set of attachments is as a map.
func TestAttachedSetIsLikeAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := attachedSet{skip: uint8(rapid.IntRange(0, 1).Draw(t, "of a shard") * shardBits)}
		want := map[session.ID]*attached{}
		next := session.ID(1) << 56
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			adds := rapid.Bool().Draw(t, "adds")
			for range rapid.IntRange(1, 100).Draw(t, "times") {
				next += session.ID(rapid.SampledFrom([]uint64{1, 1 << 16, 3 << 16}).Draw(t, "gap"))
				id := next
				if ids := slices.Sorted(maps.Keys(want)); len(ids) > 0 && rapid.Bool().Draw(t, "present") {
					id = rapid.SampledFrom(ids).Draw(t, "id")
				}
				if adds {
					a := &attached{id: id}
					s.put(a)
					want[id] = a
				} else {
					s.drop(id)
					delete(want, id)
				}
				if got := s.find(id); got != want[id] || s.find(id+1) != want[id+1] || s.size() != len(want) {
					t.Fatalf("%v is %v in a set of %d; want %v, %d", id, got, s.size(), want[id], len(want))
				}
			}
		}
		got := map[session.ID]*attached{}
		for _, a := range s.slots {
			if a != nil {
				got[a.id] = a
			}
		}
		if !maps.Equal(got, want) {
			t.Fatalf("the set has %d attachments, want %d", len(got), len(want))
		}
		if len(s.slots) > 64 && len(s.slots) > 4*len(want)+8 {
			t.Fatalf("%d slots for %d attachments", len(s.slots), len(want))
		}
	})
}

// touchAll goes through the slots: in the order of the shards it locks each of them about once.
func TestAttachedSetIsInTheOrderOfTheShards(t *testing.T) {
	table := NewTouchTable()
	var s attachedSet
	for i := range 10_000 {
		s.put(&attached{id: 1<<56 | session.ID(i)<<16})
	}
	changes, last := 0, (*shard)(nil)
	for _, a := range s.slots {
		if a != nil && table.shardOf(a.id) != last {
			last = table.shardOf(a.id)
			changes++
		}
	}
	if changes > 6*shards {
		t.Errorf("the shard changes %d times, want not many more than %d", changes, shards)
	}
}

// The memory for a list of all attachments is given back once the lists are short again.
func TestReuseOfLongLists(t *testing.T) {
	long := make([]int, 10_000)
	if got := reuse(long); cap(got) != cap(long) || len(got) != 0 {
		t.Errorf("a list that was full has room for %d, want %d", cap(got), cap(long))
	}
	if got := reuse(long[:100]); cap(got) != 0 {
		t.Errorf("a list that held 100 of 10,000 has room for %d", cap(got))
	}
	if got := reuse(make([]int, 1, 256)); cap(got) != 256 {
		t.Errorf("a short list has room for %d, want 256", cap(got))
	}
}
