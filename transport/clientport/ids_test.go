package clientport

import (
	"context"
	"errors"
	"testing"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/wire"
)

// TestO3AllocateIds holds that a client's request is checked before the node acts on it, dated by the node's clock, and
// answered with the block.
func TestO3AllocateIds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var asked []session.ClaimRequest
		service := &fakeService{allocate: func(_ context.Context, r session.ClaimRequest) (session.ID, error) {
			asked = append(asked, r)
			if r.Count == 2 {
				return 0, session.ErrIDsUsedUp
			}
			return 77, nil
		}}
		_, network, stop := clientPort(t, Config{Clock: func() time.Time { return session.TimeOfMS(9) }}, service)
		defer stop()
		ids := holdfastv1.NewIdServiceClient(dialPipes(t, network))
		for _, count := range []uint32{0, session.MaxClaim + 1} {
			_, err := ids.AllocateIds(t.Context(), &holdfastv1.AllocateIdsRequest{Count: count})
			if field, ok := errors.AsType[*session.FieldError](wire.Domain(err)); !ok || field.Field != "count" {
				t.Errorf("%d ids: %v, want a FieldError of count", count, err)
			}
		}
		if len(asked) > 0 {
			t.Errorf("asked for %+v", asked)
		}
		got, err := ids.AllocateIds(t.Context(), &holdfastv1.AllocateIdsRequest{Count: session.MaxClaim})
		if err != nil || got.GetFirst() != 77 || got.GetCount() != session.MaxClaim {
			t.Errorf("a block = %v, %v; want %d from 77 on", got, err, session.MaxClaim)
		}
		if len(asked) != 1 || asked[0] != (session.ClaimRequest{MS: 9, Count: session.MaxClaim}) {
			t.Errorf("asked for %+v", asked)
		}
		if _, err := ids.AllocateIds(t.Context(),
			&holdfastv1.AllocateIdsRequest{Count: 2}); !errors.Is(wire.Domain(err), session.ErrIDsUsedUp) {
			t.Errorf("used up: %v, want %v", err, session.ErrIDsUsedUp)
		}
	})
}
