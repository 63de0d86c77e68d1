package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdfast/test/bubble"
)

// A call to one node returns why it ended: its timeout, with the caller's own cause, or its caller's cancellation.
func TestCallsToOneNodeReturnTheCause(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, cl *Client) error{
		"status": func(ctx context.Context, cl *Client) error { _, err := cl.Status(ctx, "n1:7400"); return err },
		"drain": func(ctx context.Context, cl *Client) error {
			_, err := cl.DrainNode(ctx, "n1:7400", 1, false)
			return err
		},
		"connections": func(ctx context.Context, cl *Client) error {
			_, err := cl.Connections(ctx, "n1:7400", ConnectionOptions{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newTrial(t, 1, 1)
				c.node(1).down()
				c.set(func() { c.node(1).hang = true })
				mine := errors.New("the operator's time is over")
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.Join(mine, context.DeadlineExceeded))
				defer cancel()
				if err := call(ctx, cl); !errors.Is(err, ErrUnreachable) || !errors.Is(err, mine) {
					t.Errorf("out of time: got %v, want %v because of %v", err, ErrUnreachable, mine)
				}
				cancelled, stop := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { stop(mine) })
				if err := call(cancelled, cl); errors.Is(err, ErrUnreachable) || !errors.Is(err, mine) {
					t.Errorf("cancelled: got %v, want %v, and no word of the node", err, mine)
				}
			})
		})
	}
}
