package cli

import (
	"context"
	"iter"
	"time"

	"holdfast/client"
)

// Follow prints the events of a client until ctx ends. The first event has the time limit of a call, the others have
// none.
func Follow[E any](ctx context.Context, c *Cluster,
	events func(ctx context.Context, cl *client.Client) iter.Seq2[E, error], show func(E) error,
) error {
	cl, err := c.NewClient(client.Config{Endpoints: c.Endpoints, ReadOnly: c.ReadOnly})
	if err != nil {
		return err
	}
	defer func() { _ = cl.Close() }() // always nil
	watching, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(c.CallTimeout, func() { cancel(c.TimeoutError()) })
	defer limit.Stop()
	for e, err := range events(watching, cl) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		limit.Stop()
		if err := show(e); err != nil {
			return err
		}
	}
	return nil
}

// Reason returns the text of the reason for lost events, "" for none.
func Reason(reason error) string {
	if reason == nil {
		return ""
	}
	return reason.Error()
}
