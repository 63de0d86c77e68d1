package simnet

import (
	"errors"
	"io"
	"sync"
	"testing"
	"time"

	"holdfast/test/bubble"
)

// A thin link carries its rate in total, however many connections share it. A write ends when the buffer has accepted
// it.
func TestThin(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const bits, buffer, size = 8 << 20, 512 << 10, 4 << 20
		n := New(func(string, string) time.Duration { return latency })
		n.Thin("a", "b", bits, buffer)
		a, host := n.Host("a"), n.Host("b")
		l, err := host.Listen(":1")
		if err != nil {
			t.Fatal(err)
		}
		var took [2]time.Duration
		var wg sync.WaitGroup
		begun := time.Now()
		for i := range took {
			out, err := a.Dial(t.Context(), "b:1")
			if err != nil {
				t.Fatal(err)
			}
			in, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				if _, err := io.ReadFull(in, make([]byte, size)); err != nil {
					t.Error(err)
				}
				took[i] = time.Since(begun)
			})
			wg.Go(func() {
				if _, err := out.Write(make([]byte, size)); err != nil {
					t.Error(err)
				}
				if left := time.Duration(buffer) * time.Second * 8 / bits; i == 0 &&
					time.Since(begun) > 2*(size*8/bits)*time.Second-left/2 {
					t.Errorf("a write ended after %v: not before its bytes had arrived", time.Since(begun))
				}
				if err := errors.Join(out.Close(), in.SetDeadline(time.Time{})); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		for _, d := range took { // two times 4 s
			if d < 7*time.Second || d > 9*time.Second {
				t.Errorf("4 MiB that shared 1 MiB/s with 4 others took %v, want 8 s", d)
			}
		}
	})
}
