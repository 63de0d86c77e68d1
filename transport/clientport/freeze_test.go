package clientport

import (
	"errors"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// An operator freezes, thaws and extends. Each act is one line of the audit with its entry; the freeze names the
// operator.
func TestFreezeThawAndExtend(t *testing.T) {
	a := &fakeAdmin{}
	withAdmin(t, a, func(t *testing.T, c holdfastv1.AdminServiceClient, lines *auditLines) {
		t.Helper()
		ctx := metadata.AppendToOutgoingContext(t.Context(), wire.ClientNameKey, "ops")
		frozen, err := c.FreezeExpiry(ctx, &holdfastv1.FreezeExpiryRequest{For: durationpb.New(time.Hour), Why: "work"})
		if err != nil || frozen.GetIndex() != 41 || frozen.GetState().GetIndex() != 40 {
			t.Errorf("freeze: %v, %v", frozen, err)
		}
		thawed, err := c.ThawExpiry(ctx, &holdfastv1.ThawExpiryRequest{})
		if err != nil || thawed.GetIndex() != 41 {
			t.Errorf("thaw: %v, %v", thawed, err)
		}
		extend := &holdfastv1.ExtendSessionRequest{SessionId: 7, For: durationpb.New(time.Minute)}
		extended, err := c.ExtendSession(ctx, extend)
		if err != nil || extended.GetIndex() != 42 {
			t.Errorf("extend: %v, %v", extended, err)
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.freezes) != 2 || a.freezes[0] != (session.FreezeRequest{For: time.Hour, By: "ops", Why: "work"}) ||
			a.freezes[1].For != 0 || len(a.extends) != 1 || a.extends[0] != (session.ExtendRequest{ID: 7, For: time.Minute}) {
			t.Errorf("asked for %+v and %+v", a.freezes, a.extends)
		}
		all := lines.all()
		if len(all) != 3 {
			t.Fatalf("%d lines of the audit: %q", len(all), all)
		}
		for i, words := range [][]string{
			{"freeze expiry", "ops", "entry 41", "work"}, {"thaw expiry", "entry 41"}, {"extend a session", "entry 42"},
		} {
			for _, word := range words {
				if !strings.Contains(all[i], word) {
					t.Errorf("%q is missing in %q", word, all[i])
				}
			}
		}
	})
}

// What is out of range is refused with the field and its limit, and the node is not asked.
func TestFreezesOutOfRange(t *testing.T) {
	a := &fakeAdmin{}
	withAdmin(t, a, func(t *testing.T, c holdfastv1.AdminServiceClient, _ *auditLines) {
		t.Helper()
		freeze := func(span time.Duration, why string) error {
			_, err := c.FreezeExpiry(t.Context(), &holdfastv1.FreezeExpiryRequest{For: durationpb.New(span), Why: why})
			return err
		}
		extend := func(id uint64, span time.Duration) error {
			_, err := c.ExtendSession(t.Context(), &holdfastv1.ExtendSessionRequest{SessionId: id, For: durationpb.New(span)})
			return err
		}
		for field, err := range map[string]error{
			"for": freeze(0, ""), "for ": freeze(session.MaxFreeze+time.Millisecond, ""), "for  ": freeze(-time.Second, ""),
			"for   ": freeze(time.Microsecond, ""), "why": freeze(time.Second, strings.Repeat("x", session.MaxWhy+1)),
			"session_id": extend(0, time.Second), "for     ": extend(7, session.MaxFreeze+time.Millisecond),
		} {
			got, ok := errors.AsType[*session.FieldError](wire.Domain(err))
			if !ok || got.Field != strings.TrimSpace(field) || got.Limit == "" {
				t.Errorf("%q: %v", field, err)
			}
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if len(a.freezes)+len(a.extends) > 0 {
			t.Errorf("the node was asked for %+v and %+v", a.freezes, a.extends)
		}
	})
}
