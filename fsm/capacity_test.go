package fsm

import (
	"errors"
	"math"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/fsm/certificates"
	"holdfast/fsm/entry"
	"holdfast/fsm/proposer"
	"holdfast/session"
)

// bounded returns a state with a capacity of so many sessions and bytes.
func bounded(t fataler, sessions, bytes uint64) *replica {
	r := newReplica()
	r.do(t, session.SetCapacity{Capacity: session.Capacity{MaxSessions: sessions, MaxBytes: bytes}})
	return r
}

// wantFull fails unless err is a LimitError of name that has a RetryAfter, and all of says in its limit.
func wantFull(t *testing.T, err error, name string, says ...string) {
	t.Helper()
	var limit *session.LimitError
	if !errors.As(err, &limit) || limit.Name != name || limit.RetryAfter != session.FullRetryAfter {
		t.Fatalf("got %v, want a LimitError of %s with a RetryAfter", err, name)
	}
	for _, s := range says {
		if !strings.Contains(limit.Limit, s) {
			t.Errorf("the limit reads %q, want %q in it", limit.Limit, s)
		}
	}
}

// O4: an open that finds no room changes nothing. The sessions stay, and repeats are answered as before.
func TestO4MaxSessions(t *testing.T) {
	r := bounded(t, 2, session.MinCapacityBytes)
	first := r.open(t, opening(1))
	r.open(t, opening(2))
	mark, bytes := r.tables.marks[1], r.tables.bytes
	for range 3 {
		wantFull(t, r.apply(t, 1, opening(3))[0].Err, "max_sessions", "2 sessions", "2 open")
	}
	if err := r.CheckCapacity(opening(3)); err == nil {
		t.Error("Room returns nil for an open that the log refuses")
	}
	if r.Sessions() != 2 || r.tables.marks[1] != mark || r.tables.bytes != bytes || r.Requests() != 2 ||
		r.Attachment() != 2 {
		t.Errorf("%d sessions, mark %v, %d bytes, %d request ids after refusals; want 2, %v, %d, 2",
			r.Sessions(), r.tables.marks[1], r.tables.bytes, r.Requests(), mark, bytes)
	}
	if err := r.CheckCapacity(opening(1)); err != nil {
		t.Errorf("Room refuses the repeat of an open: %v", err)
	}
	if got := r.apply(t, 1, opening(1))[0]; got.Err != nil || got.Session.ID != first.ID || !got.Repeated {
		t.Errorf("the repeat of an open: %+v, want its session", got)
	}
	moved := r.do(t, session.MoveSession{ID: first.ID, NewOwner: 2, Instance: 1, Attempt: 1, Named: 1}).Session
	r.do(t, closing(1, moved))
	if err := r.CheckCapacity(opening(3)); err != nil {
		t.Errorf("after an end: %v", err)
	}
	r.open(t, opening(3)) // the request id of a refused open is not remembered
}

// O4: the repeat of an open whose session has ended is refused with ErrExpired, not for want of room.
func TestO4ARepeatOfAnEndedOpen(t *testing.T) {
	r := bounded(t, 1, session.MinCapacityBytes)
	r.do(t, closing(1, r.open(t, opening(1))))
	r.open(t, opening(2))
	if err := r.apply(t, 1, opening(1))[0].Err; !errors.Is(err, session.ErrExpired) || r.CheckCapacity(opening(1)) != nil {
		t.Errorf("the repeat got %v, want %v", err, session.ErrExpired)
	}
}

// O4: bounds below the number of sessions end no session.
func TestO4BoundsBelowWhatThereIs(t *testing.T) {
	r := bounded(t, 100, session.MinCapacityBytes)
	var all []session.Session
	for i := range byte(10) {
		all = append(all, r.open(t, opening(i+1)))
	}
	r.do(t, session.SetCapacity{Capacity: session.Capacity{MaxSessions: 3, MaxBytes: session.MinCapacityBytes}})
	if r.Sessions() != 10 {
		t.Fatalf("%d sessions, want all 10", r.Sessions())
	}
	all[0] = r.do(t, session.MoveSession{ID: all[0].ID, NewOwner: 2, Instance: 1, Attempt: 1, Named: 1}).Session
	for i, s := range all[:8] {
		if r.Sessions() > 2 {
			wantFull(t, r.apply(t, 1, opening(50))[0].Err, "max_sessions", "3 sessions")
		}
		if r.do(t, closing(1, s)); r.Sessions() != 9-i {
			t.Fatalf("%d sessions, want %d", r.Sessions(), 9-i)
		}
	}
	r.open(t, opening(50))
	wantFull(t, r.apply(t, 1, opening(51))[0].Err, "max_sessions")
}

// O4, L7: an upgrade counts against the capacity, and its repeat does not.
func TestO4Upgrades(t *testing.T) {
	r := bounded(t, 1, session.MinCapacityBytes)
	first := r.do(t, session.ClaimIDs{Node: 1, Count: 2}).First
	up := func(id session.ID) session.UpgradeSession {
		return session.UpgradeSession{ID: id, Spec: session.Spec{Timeout: time.Second}}
	}
	r.do(t, up(first))
	wantFull(t, r.apply(t, 1, up(first+1))[0].Err, "max_sessions")
	wantFull(t, r.CheckCapacity(up(first+1)), "max_sessions")
	if got := r.apply(t, 1, up(first))[0]; got.Err != nil || !got.Repeated || r.CheckCapacity(up(first)) != nil {
		t.Errorf("the repeat of an upgrade: %+v", got)
	}
}

// large returns the n-th open, with more than 10 KB of labels.
func large(n int) session.OpenSession {
	c := openNumber(n)
	for i := range session.MaxLabels {
		key := strings.Repeat(string(rune('a'+i%26)), session.MaxLabelKey-2) + string(rune('a'+i/26)) + "."
		c.Labels = append(c.Labels, session.Label{Key: key, Value: strings.Repeat("v", session.MaxLabelValue)})
	}
	labels, err := session.NewLabels(asMap(c.Labels))
	if err != nil {
		panic(err)
	}
	c.Labels = labels
	return c
}

func asMap(labels session.Labels) map[string]string {
	m := map[string]string{}
	for _, l := range labels {
		m[l.Key] = l.Value
	}
	return m
}

// O4: opens with labels of 10 KB until there is no room. The bytes that are counted are not below the memory that a
// node really takes, and not far above it.
func TestO4MaxStateBytes(t *testing.T) {
	r := bounded(t, session.MaxCapacitySessions, session.MinCapacityBytes)
	before := heap()
	opened := 0
	for ; ; opened++ {
		err := r.apply(t, 1, large(opened))[0].Err
		if err != nil {
			wantFull(t, err, "max_state_bytes", "67108864 bytes")
			break
		}
		if opened > 8000 {
			t.Fatal("8,000 opens of 10 KB found room in 64 MB")
		}
	}
	u := r.Usage()
	took := heap() - before
	if u.Bytes > session.MinCapacityBytes || u.Bytes < session.MinCapacityBytes-20<<10 {
		t.Errorf("%d bytes are counted, want %d at most, and hardly less", u.Bytes, session.MinCapacityBytes)
	}
	if took > u.Bytes || took < u.Bytes/2 {
		t.Errorf("%d sessions take %d bytes of memory, and %d are counted", opened, took, u.Bytes)
	}
	t.Logf("%d sessions: %d bytes of memory, %d counted", opened, took, u.Bytes)
	wantFull(t, r.apply(t, 1, large(opened+1))[0].Err, "max_state_bytes")
	runtime.KeepAlive(r)
}

// O2, O4: remembered request ids count against the capacity. Opening and closing sessions until there is no room makes
// the state forget no id early: repeats are answered, and new opens wait until ids may be forgotten.
func TestO4RememberedRequests(t *testing.T) {
	r := bounded(t, session.MaxCapacitySessions, session.MinCapacityBytes)
	const filling = 5300
	const batch = 1000       // sessions that live at the same time
	for i := range filling { // fills the state, which spares half a million opens
		r.open(t, large(1<<40+i))
	}
	held := r.Usage().Bytes
	opened := 0
	for full := false; !full; {
		var opens []session.Command
		for range batch {
			opens = append(opens, openNumber(opened+len(opens)))
		}
		var ends []session.Session
		for _, got := range r.apply(t, 1, opens...) {
			if full = got.Err != nil; full {
				wantFull(t, got.Err, "max_state_bytes")
				break
			}
			ends = append(ends, got.Session)
		}
		opened += len(ends)
		if len(ends) > 0 {
			r.apply(t, 1, closing(1, ends...))
		}
	}
	// A session that was opened and closed leaves a request id, and a certificate, which has room of its own.
	most := int((session.MinCapacityBytes - held) / session.RequestBytes)
	if opened < most-batch*(session.SessionBytes/session.RequestBytes+2) || opened > most || r.Sessions() != filling {
		t.Fatalf("%d opens found room, want up to %d; %d sessions are left", opened, most, r.Sessions())
	}
	if err := r.apply(t, 1, openNumber(0))[0].Err; !errors.Is(err, session.ErrExpired) {
		t.Errorf("the repeat of the first open got %v, want that its session has ended", err)
	}
	before := r.Usage().Bytes
	remembered := uint64(r.Requests())
	r.do(t, session.ForgetRequests{UpToIndex: r.next})
	if got := r.Usage().Bytes; got != before-remembered*session.RequestBytes {
		t.Errorf("%d bytes are left of %d when %d request ids are forgotten", got, before, remembered)
	}
	r.open(t, openNumber(opened+1))
}

// O4: certificates have room of their own. However many sessions have ended, none of them has an open refused, and the
// newest certificates are kept.
func TestO4CertificatesRefuseNoOpen(t *testing.T) {
	r := bounded(t, session.MaxCapacitySessions, session.MinCapacityBytes)
	share := r.Usage().Capacity.CertificateBytes()
	one := large(0)
	each := session.CertificateBytes + one.Labels.Bytes()
	var oldest, newest session.ID
	for n := range 2 * session.MinCapacityBytes / int(each) {
		c := openNumber(n)
		c.Labels = one.Labels
		got := r.apply(t, 1, c)[0]
		if got.Err != nil {
			t.Fatalf("nobody lives, %d sessions have ended, and an open is refused: %v", n, got.Err)
		}
		r.apply(t, 1, closing(1, got.Session), session.ForgetRequests{UpToIndex: r.next})
		if newest = got.Session.ID; oldest == 0 {
			oldest = newest
		}
	}
	u := r.Usage()
	if u.Bytes != 0 || u.CertificateBytes > share || u.CertificateBytes < share-each {
		t.Errorf("when all have ended, %d bytes are counted for sessions, and %d for certificates, want 0 and about %d",
			u.Bytes, u.CertificateBytes, share)
	}
	if _, ok := r.Certificate(oldest); ok {
		t.Error("the oldest certificate is kept")
	}
	if _, ok := r.Certificate(newest); !ok {
		t.Error("the newest certificate is not kept")
	}
	if got := restored(t, r.snapshot(t)); got.tables.digest() != r.tables.digest() || got.Usage() != u {
		t.Errorf("restored it has %+v, want %+v", got.Usage(), u)
	}
}

// fills opens sessions with labels in entries as large as a leader makes them, until there are enough or there is no
// room for another one. It calls after with each entry.
func (r *replica) fills(t *testing.T, enough int, labels session.Labels, after func()) (all []session.Session) {
	t.Helper()
	one := openNumber(0)
	one.Labels = labels
	encoded, err := entry.EncodeCommand(one)
	if err != nil {
		t.Fatal(err)
	}
	many := min(session.EntryBytes/len(encoded), proposer.DefaultEntryCommands)
	for len(all) < enough {
		opens := make([]session.Command, many)
		for i := range opens {
			c := openNumber(int(r.next)<<16 | i)
			c.Labels = labels
			opens[i] = c
		}
		results := r.apply(t, 1, opens...)
		after()
		for _, got := range results {
			if got.Err != nil {
				wantFull(t, got.Err, "max_state_bytes")
				return all
			}
			all = append(all, got.Session)
		}
	}
	return all
}

// O4: a burst of ends takes the certificates above their share, into the room that the sessions leave: both together
// stay within both rooms, also while new sessions take that room. Later entries drop the rest.
func TestO4ABurstOfEndsStaysWithinBothRooms(t *testing.T) {
	r := bounded(t, session.MaxCapacitySessions, session.MinCapacityBytes)
	share := r.Usage().Capacity.CertificateBytes()
	within := func() {
		t.Helper()
		if u := r.Usage(); u.Bytes+u.CertificateBytes > session.MinCapacityBytes+share {
			t.Fatalf("sessions take %d bytes and certificates %d: more than %d and %d together", u.Bytes, u.CertificateBytes,
				session.MinCapacityBytes, share)
		}
	}
	ends := func(all []session.Session) {
		for each := range slices.Chunk(all, 4*session.MaxCloseBatch) { // E3: an entry ends no more than some 4,700
			var closes []session.Command
			for some := range slices.Chunk(each, session.MaxCloseBatch) {
				closes = append(closes, closing(1, some...))
			}
			r.apply(t, 1, closes...)
			within()
		}
		r.apply(t, 1, session.ForgetRequests{UpToIndex: r.next})
	}
	var heavy, light session.Labels // 32 labels, as large as they may be, and those that cost most for their size
	for i := range session.MaxLabels {
		key := string(rune('A' + i))
		light = append(light, session.Label{Key: key})
		heavy = append(heavy, session.Label{
			Key: key + strings.Repeat("k", session.MaxLabelKey-1), Value: strings.Repeat("v", session.MaxLabelValue),
		})
	}
	fit := int(share / session.CertificateBytes)
	ends(r.fills(t, fit, nil, within)) // the oldest certificates are small: many of them make little room
	ends(r.fills(t, math.MaxInt, heavy, within))
	if got := r.Usage().CertificateBytes; got < 2*share {
		t.Fatalf("certificates take %d bytes, of %d: no burst", got, share)
	}
	ends(r.fills(t, math.MaxInt, light, within))
	for range certificateLimit / certificatesDropped {
		r.do(t, session.ForgetRequests{})
	}
	if got := r.Usage().CertificateBytes; got > share {
		t.Errorf("certificates take %d bytes some entries later, want at most %d", got, share)
	}
}

// O4: one entry of the log drops a bounded number of certificates, so that it is applied in a short time. A smaller
// capacity has the next entries drop the rest.
func TestO4CertificatesAreDroppedInParts(t *testing.T) {
	all := newTables()
	all.capacity.MaxBytes = 2 << 30
	const issued = certificateLimit + 10
	for i := range uint64(issued) {
		all.addCertificate(&certificates.Certificate{ID: session.ID(i + 1), Number: i, Index: i + 1, Story: &session.Story{}})
	}
	kept := func(want int) {
		t.Helper()
		items := all.certificates.Items
		if len(items) != want || all.certificates.Bytes != uint64(want*session.CertificateBytes) || all.bytes != 0 ||
			all.forgotSince(uint64(issued-want)) || !all.forgotSince(uint64(issued-want-1)) {
			t.Errorf("%d certificates of %d bytes are kept, want %d", len(items), all.certificates.Bytes, want)
		}
	}
	all.trimCertificates()
	kept(certificateLimit)
	all.capacity.MaxBytes = session.MinCapacityBytes
	const fit = session.MinCapacityBytes / 8 / session.CertificateBytes
	for left := certificateLimit; left > fit; {
		left = max(left-certificatesDropped, fit)
		all.trimCertificates()
		kept(left)
	}
	all.trimCertificates()
	kept(fit)
}

// O4, L7: a certificate goes when it is old by the log clock, with any entry. What is known to have ended before is no
// reason to refuse a later upgrade.
func TestO4CertificatesGetOld(t *testing.T) {
	r := newTree(t)
	first := r.at(t, session.ClaimIDs{Node: 3, Count: 10})[0].First
	r.clock = time.Hour
	s := r.open(t, 1, 7)
	r.at(t, closing(1, s))
	r.clock += certificateAge
	r.at(t)
	if _, ok := r.Certificate(s.ID); !ok {
		t.Fatalf("the certificate is dropped before it is %v old", certificateAge)
	}
	before := r.AppliedIndex()
	r.clock += time.Millisecond
	r.at(t)
	if _, ok := r.Certificate(s.ID); ok || r.Usage().CertificateBytes != 0 {
		t.Errorf("the certificate is kept for longer than %v, or counts for %d bytes", certificateAge,
			r.Usage().CertificateBytes)
	}
	if oldest := r.Deaths(0, func(uint64, *session.Certificate) bool { return true }); oldest != 2 {
		t.Errorf("the oldest certificate that is kept has number %d, want that of the next one, 2", oldest)
	}
	again := restored(t, r.snapshot(t))
	same(t, again, r.replica)
	for i, one := range []*replica{r.replica, again} {
		up := upgrading(first)
		if up.Since = before - 2; i == 0 { // the session ended in the entry behind
			if err := one.apply(t, 1, up)[0].Err; !errors.Is(err, session.ErrExpired) {
				t.Errorf("an upgrade that began before the session ended: %v, want %v", err, session.ErrExpired)
			}
		}
		if up.Since = before; one.apply(t, 1, up)[0].Err != nil {
			t.Error("an upgrade that began later is refused")
		}
	}
}

// I6: replicas refuse the same opens, whether they were restored from a snapshot or not.
func TestI6CapacityIsInSnapshots(t *testing.T) {
	r := bounded(t, 1, session.MinCapacityBytes)
	r.open(t, opening(1))
	other := restored(t, r.snapshot(t))
	same(t, other, r)
	for _, one := range []*replica{r, other} {
		wantFull(t, one.apply(t, 1, opening(2))[0].Err, "max_sessions")
	}
	same(t, other, r)
}

// I6: states with different capacities have different digests.
func TestI6DigestCoversTheCapacity(t *testing.T) {
	seen := map[[16]byte]session.Capacity{}
	for _, c := range []session.Capacity{
		{},
		{MaxSessions: 1, MaxBytes: 2},
		{MaxSessions: 2, MaxBytes: 1},
		{MaxSessions: 1, MaxBytes: 1},
	} {
		r := newReplica()
		r.tables.capacity = c
		digest := r.tables.digest()
		if other, ok := seen[digest]; ok {
			t.Errorf("states with %+v and %+v have one digest", other, c)
		}
		seen[digest] = c
	}
}

// The costs decide which opens an entry refuses. With other costs, two releases in one cluster would differ in their
// state.
func TestWhatThingsCostIsForEver(t *testing.T) {
	labels := session.Labels{{Key: "app", Value: "billing"}, {Key: "zone", Value: strings.Repeat("z", 17)}}
	got := []uint64{
		session.SessionBytes, session.CertificateBytes, session.RequestBytes, labels.Bytes(),
		session.Labels{}.Bytes(),
	}
	want := []uint64{512, 256, 96, 24 + 2*36 + 16 + 16 + 16 + 32, 0}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("cost %d is %d, want %d", i, got[i], want[i])
		}
	}
}
