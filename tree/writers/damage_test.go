package writers

import (
	"errors"
	"strings"
	"testing"
)

type nothing struct{}

func (nothing) Add([]byte)    {}
func (nothing) Remove([]byte) {}

// TestVerifyFindsDamage: a verification names each sum that does not fit what the sessions hold (X3 kept results).
func TestVerifyFindsDamage(t *testing.T) {
	count := func(r *Root, principal string, how func(*share)) {
		s := r.share(principal)
		how(&s)
		r.shares.Set(principal, s)
	}
	for says, damage := range map[string]func(r *Root){
		"writers: all hold 68 bytes of results and 3 of wills: counted are 69 and 3": func(r *Root) { r.results++ },
		"writers: all hold 68 bytes of results and 3 of wills: counted are 68 and 2": func(r *Root) { r.wills-- },
		`1 sessions of "a" hold 35 bytes of results and 3 of wills: counted are 1, 36 and 3`: func(r *Root) {
			count(r, "a", func(s *share) { s.results++ })
		},
		`hold 35 bytes of results and 3 of wills: counted are 1, 35 and 4`: func(r *Root) {
			count(r, "a", func(s *share) { s.wills++ })
		},
		"counted are 2, 35 and 3":                           func(r *Root) { count(r, "a", func(s *share) { s.writers++ }) },
		"writers: 2 principals hold something, and 3 are":   func(r *Root) { count(r, "c", func(*share) {}) },
		"session 0x7 holds results of 35 bytes, and 36 are": func(r *Root) { r.get(7).holding.bytes++ },
		"session 0x7 has 0 results, and numbers for 1": func(r *Root) {
			w := r.get(7)
			w.holding.results = nil
		},
	} {
		table := New(nothing{}, DefaultLimits())
		table.Keep(7, 1, "a", []byte("abc"))
		if err := table.SetWill(7, "a", Will{Data: []byte("xyz")}); err != nil {
			t.Fatal(err)
		}
		table.Keep(8, 1, "b", []byte("d"))
		table.Keep(8, 2, "b", []byte("e"))
		table.Acknowledge(8, 1)
		r := table.Freeze()
		things := 0
		verify := func() error {
			return r.Verify(func([]byte) error {
				things++
				return nil
			})
		}
		if err := verify(); err != nil || things != 5 {
			t.Fatalf("%v after %d things, want 2 writers, 2 results and a will", err, things)
		}
		damage(r)
		if err := verify(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want an error that says %q", err, says)
		}
	}
}

// TestVerifyEnds: a verification ends on request.
func TestVerifyEnds(t *testing.T) {
	table := New(nothing{}, DefaultLimits())
	table.Keep(7, 1, "a", []byte("abc"))
	stop, calls := errors.New("stop"), 0
	err := table.Freeze().Verify(func([]byte) error {
		calls++
		return stop
	})
	if !errors.Is(err, stop) || calls != 1 {
		t.Errorf("%v after %d calls", err, calls)
	}
}
