package fair_test

import (
	"sync"
	"testing"

	"holdfast/session/fair"
)

// An owner has at most three quarters of a room, whatever number of members it has, and a member at most three quarters
// of the owner's part: another member and another owner can take bytes at any moment.
func TestMembersShareWhatTheirOwnerMayHave(t *testing.T) {
	const limit = 1 << 16
	r := fair.NewNested[string, int](limit)
	fill := func(owner string, member int) (taken int) {
		m := r.Member(owner, member)
		for m.Acquire(1) {
			taken++
		}
		return taken
	}
	if got := fill("many", 0); got < limit*9/16-4 || got > limit*9/16 {
		t.Errorf("one member took %d of %d bytes, want three quarters of three quarters", got, limit)
	}
	second := fill("many", 1)
	if second < limit*9/64-4 {
		t.Errorf("a second member found %d of %d bytes", second, limit)
	}
	for member := 2; member < 16; member++ {
		fill("many", member)
	}
	if got := r.Used(); got > limit*3/4 {
		t.Errorf("16 members of one owner hold %d of %d bytes, want three quarters at most", got, limit)
	}
	if !r.Member("other", 0).Acquire(limit / 8) {
		t.Errorf("%d bytes are free, and another owner may not take an eighth of the room", limit-r.Used())
	}
}

// The bytes of members are counted correctly whoever uses the room at the same time, and all can be given back.
func TestMembersTogether(t *testing.T) {
	r := fair.NewNested[int, int](1000)
	var wg sync.WaitGroup
	for user := range 8 {
		wg.Go(func() {
			for range 2000 {
				m := r.Member(user%2, user%4)
				if m.Acquire(7) {
					m.Release(7)
				}
				m.Close()
			}
		})
	}
	wg.Wait()
	if r.Used() != 0 || r.Members() != 0 {
		t.Errorf("%d bytes of %d members are left", r.Used(), r.Members())
	}
}
