package ratelimit

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/transport/internal/porttest"
)

// drain sends requests until a limiter refuses one, and returns how many were admitted.
func drain(g *Limiter, now time.Time, k Kind, v Caller) (admitted int) {
	for g.Admit(now, k, 1, v) == nil {
		admitted++
	}
	return admitted
}

// A herd of one kind of request uses up no rate limit of another kind.
func TestRateLimitsAreApart(t *testing.T) {
	g := New(Config{Opens: 100, Resumes: 200, Touches: 300})
	now := g.base
	for k, want := range map[Kind]int{Opens: 10, Resumes: 20, Touches: 30} {
		if got := drain(g, now, k, Caller{}); got != want {
			t.Errorf("%d %s at once, want %d", got, k, want)
		}
		limit := porttest.RefusedBy(t, g.Admit(now, k, 1, Caller{}))
		if name := fmt.Sprintf("max_%s_per_second", k); limit.Name != name ||
			limit.Limit != fmt.Sprintf("%d per second", 10*want) {
			t.Errorf("refused by %v, want %s", limit, name)
		}
	}
	if got, want := g.Refused(), (Refusals{Opens: {2}, Resumes: {2}, Touches: {2}}); got != want {
		t.Errorf("counted %v, want %v", got, want)
	}
}

// While resumes are refused, every touch and every open of a normal load is admitted.
func TestLimiterServesTouchesUnderAHerdOfResumes(t *testing.T) {
	g := New(Config{Opens: 100, Resumes: 1000, Touches: 10_000})
	refused := 0
	for ms := range 5000 {
		now := g.base.Add(time.Duration(ms) * time.Millisecond)
		for range 20 { // 20 times the limit
			if g.Admit(now, Resumes, 1, Caller{}) != nil {
				refused++
			}
		}
		if err := g.Admit(now, Touches, 10, Caller{}); err != nil {
			t.Fatalf("a touch after %d ms: %v", ms, err)
		}
		if ms%10 == 0 {
			if err := g.Admit(now, Opens, 1, Caller{}); err != nil {
				t.Fatalf("an open after %d ms: %v", ms, err)
			}
		}
	}
	if refused < 90_000 {
		t.Errorf("%d resumes refused: the test has no herd", refused)
	}
}

// While opens are refused, existing sessions are resumed and touched.
func TestLimiterServesResumesUnderAHerdOfOpens(t *testing.T) {
	g := New(Config{Opens: 100, Resumes: 1000, Touches: 10_000})
	refused := 0
	for ms := range 5000 {
		now := g.base.Add(time.Duration(ms) * time.Millisecond)
		for range 20 {
			if g.Admit(now, Opens, 1, Caller{}) != nil {
				refused++
			}
		}
		if err := errors.Join(g.Admit(now, Resumes, 1, Caller{}), g.Admit(now, Touches, 10, Caller{})); err != nil {
			t.Fatalf("after %d ms: %v", ms, err)
		}
	}
	if refused < 99_000 {
		t.Errorf("%d opens refused: the test has no herd", refused)
	}
}

func TestLimiterPerAddress(t *testing.T) {
	g := New(Config{Resumes: 1000, OpensAndResumesPerAddress: 50})
	one, two := Caller{Address: netip.MustParseAddr("192.0.2.1")}, Caller{Address: netip.MustParseAddr("192.0.2.2")}
	if err := errors.Join(g.Admit(g.base, Opens, 3, one), g.Admit(g.base, Resumes, 2, one)); err != nil {
		t.Fatal(err)
	}
	for _, k := range []Kind{Opens, Resumes} { // they share the limit
		if limit := porttest.RefusedBy(
			t, g.Admit(g.base, k, 1, one),
		); limit.Name != "max_opens_and_resumes_per_second_per_address" || limit.Limit != "50 per second" {
			t.Errorf("refused by %v", limit)
		}
	}
	if err := errors.Join(g.Admit(g.base, Touches, 1000, one), g.Admit(g.base, Resumes, 5, two)); err != nil {
		t.Errorf("a touch of the same address, or another address: %v", err)
	}
	if got := g.Refused(); got[Opens][OfAddress] != 1 || got[Resumes][OfAddress] != 1 {
		t.Errorf("counted %v", got)
	}
}

func TestLimiterPerClient(t *testing.T) {
	g := New(Config{OpensAndResumesPerClient: 10})
	for _, v := range []Caller{{Name: "a"}, {Name: "a", Verified: true}, {Name: "b"}, {}} {
		if err := g.Admit(g.base, Opens, 1, v); err != nil {
			t.Errorf("%+v: %v", v, err)
		}
	}
	// Clients without a name share one rate limit, from whatever address.
	limit := porttest.RefusedBy(t, g.Admit(g.base, Resumes, 1, Caller{Address: netip.MustParseAddr("192.0.2.7")}))
	if limit.Name != "max_opens_and_resumes_per_second_per_client" {
		t.Errorf("refused by %v", limit)
	}
}

// A request that one rate limit refuses uses up no other rate limit.
func TestARefusalUsesUpNoOtherLimit(t *testing.T) {
	g := New(Config{Resumes: 10, OpensAndResumesPerAddress: 20, OpensAndResumesPerClient: 20})
	v := Caller{Name: "a"}
	if err := g.Admit(g.base, Resumes, 1, v); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if limit := porttest.RefusedBy(t, g.Admit(g.base, Resumes, 1, v)); limit.Name != "max_resumes_per_second" {
			t.Fatalf("refused by %v", limit)
		}
	}
	if err := g.Admit(g.base, Opens, 1, v); err != nil {
		t.Errorf("the refused resumes used up the rate limit of opens and resumes: %v", err)
	}

	g = New(Config{OpensAndResumesPerAddress: 20, OpensAndResumesPerClient: 10})
	if err := g.Admit(g.base, Opens, 1, v); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if limit := porttest.RefusedBy(t,
			g.Admit(g.base, Opens, 1, v)); limit.Name != "max_opens_and_resumes_per_second_per_client" {
			t.Fatalf("refused by %v", limit)
		}
	}
	if err := g.Admit(g.base, Opens, 1, Caller{Name: "b"}); err != nil {
		t.Errorf("the refused requests of one client used up the rate limit of its address: %v", err)
	}
}

// The number of buckets is bounded, however many names come, and earlier names keep theirs.
func TestSharesAreBounded(t *testing.T) {
	const most = 100
	s := newKeyedBuckets[int](10, most)
	for key := range most {
		if !s.bucket(0, key).take(0, 1) {
			t.Fatalf("%d has no bucket of its own", key)
		}
	}
	if !s.bucket(0, most).take(0, 1) {
		t.Error("keys without a bucket of their own do not share one")
	}
	for key := most + 1; key < 100*most; key++ {
		if s.bucket(0, key).take(0, 1) {
			t.Fatalf("%d of a flood has a bucket of its own", key)
		}
	}
	if got := s.len(); got != most {
		t.Errorf("%d buckets, want %d", got, most)
	}
	if s.bucket(0, 7).take(0, 1) {
		t.Error("a used-up bucket was replaced by a key of the flood")
	}
	later := int64(time.Second)
	if !s.bucket(later, most+1).take(later, 1) || s.len() != most {
		t.Error("a bucket that is full again was not replaced")
	}
}

// The bucket that is replaced is the least recently used one.
func TestSharesForgetTheOldest(t *testing.T) {
	s := newKeyedBuckets[string](10, 3)
	for _, key := range []string{"a", "b", "c", "a"} {
		s.bucket(0, key)
	}
	for i, want := range []string{"b", "c", "a", "d"} {
		s.bucket(0, string(rune('d'+i)))
		if _, kept := s.of[want]; kept || s.len() != 3 {
			t.Errorf("%d buckets are kept, %s among them", s.len(), want)
		}
	}
}

func TestLimiterAllocatesNothing(t *testing.T) {
	g := New(
		Config{
			Touches: 1_000_000_000, Resumes: 1_000_000_000, OpensAndResumesPerAddress: 1_000_000_000,
			OpensAndResumesPerClient: 1_000_000_000,
		},
	)
	v := Caller{Address: netip.MustParseAddr("2001:db8::"), Name: "a"}
	for _, k := range []Kind{Touches, Resumes} {
		if n := testing.AllocsPerRun(100, func() { _ = g.Admit(g.base, k, 1, v) }); n != 0 {
			t.Errorf("%s: %v allocations", k, n)
		}
	}
}

// A hold refuses every request of its kind and says why, touches are never held, and the bucket is full afterwards. A
// connection's request keeps no slot of a bucket behind a hold.
func TestLimiterHolds(t *testing.T) {
	g := New(Config{Opens: 100, Resumes: 200, Touches: 300})
	now := g.base
	reservations := g.Reservations(Caller{}, 10)
	first := Arrival{Kind: Opens, Open: session.RequestID{1}}
	drain(g, now, Opens, Caller{})
	if porttest.RefusedBy(t, reservations.Admit(now, first)).Name != "max_opens_per_second" {
		t.Fatal("the rate limit is not used up")
	}
	for k := range Kinds {
		g.Hold(k, &Hold{Scope: OfMemory, Limit: "3 bytes"})
	}
	for _, err := range []error{
		g.Admit(now, Opens, 1, Caller{}), g.Admit(now, Resumes, 1, Caller{}), g.Admit(now, Writes, 1, Caller{}),
		reservations.Admit(now, first),
	} {
		limit := porttest.RefusedBy(t, err)
		if limit.Name != "memory_limit" || limit.Limit != "3 bytes" || limit.RetryAfter != 2*time.Second {
			t.Errorf("refused by %v, after %v", limit, limit.RetryAfter)
		}
	}
	if waiting := g.node[Opens].waiting.Load(); waiting != 0 {
		t.Errorf("slots for %v of the bucket are reserved behind a hold", time.Duration(waiting))
	}
	if err := g.Admit(now, Touches, 1, Caller{}); err != nil {
		t.Errorf("a touch: %v", err)
	}
	for k := range Kinds {
		g.Hold(k, nil)
	}
	if got := drain(g, now, Resumes, Caller{}); got != 20 {
		t.Errorf("%d resumes at once after the hold, want 20", got)
	}
	refused := g.Refused()
	if refused[Opens][OfMemory] != 2 || refused[Resumes][OfMemory] != 1 || refused[Writes][OfMemory] != 1 ||
		refused[Touches][OfMemory] != 0 {
		t.Errorf("counted %v", refused)
	}
}
