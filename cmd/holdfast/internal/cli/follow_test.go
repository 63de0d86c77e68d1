package cli

import (
	"context"
	"errors"
	"iter"
	"slices"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/test/bubble"
)

// A watch has the time limit of a call for its first event, and none from then on.
func TestAWatchOutlivesTheTimeOfACall(t *testing.T) {
	for first, want := range map[time.Duration][]int{0: {1, 2}, time.Minute: nil} {
		bubble.Test(t, func(t *testing.T) {
			events := func(ctx context.Context, _ *client.Client) iter.Seq2[int, error] {
				return func(yield func(int, error) bool) {
					for i, wait := range []time.Duration{first, time.Minute} {
						select {
						case <-time.After(wait):
						case <-ctx.Done():
							yield(0, context.Cause(ctx))
							return
						}
						if !yield(i+1, nil) {
							return
						}
					}
				}
			}
			var told []int
			nobody := &Cluster{Endpoints: []string{"127.0.0.1:1"}, CallTimeout: time.Second}
			err := Follow(t.Context(), nobody, events, func(i int) error {
				told = append(told, i)
				return nil
			})
			if !slices.Equal(told, want) || errors.As(err, new(timeoutError)) != (want == nil) {
				t.Errorf("the first after %v: told %v, %v; want %v", first, told, err, want)
			}
		})
	}
}
