package session

import (
	"slices"
	"testing"
	"time"

	"holdfast/test/bubble"
)

// TestPulse: tickers of one pulse that begin at different moments tick at the same ones.
func TestPulse(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		begun := time.Now()
		pulse := NewPulse()
		moments := func(ticker *Ticker, n int) (at []time.Duration) {
			for range n {
				<-ticker.C
				at = append(at, time.Since(begun))
			}
			return at
		}
		time.Sleep(130 * time.Millisecond)
		slow := pulse.Ticker(500 * time.Millisecond)
		defer slow.Stop()
		time.Sleep(7 * time.Millisecond)
		fast := pulse.Ticker(125 * time.Millisecond)
		defer fast.Stop()
		want := []time.Duration{
			250 * time.Millisecond, 375 * time.Millisecond, 500 * time.Millisecond, 625 * time.Millisecond,
		}
		if got := moments(fast, 4); !slices.Equal(got, want) {
			t.Errorf("a fast ticker ticks at %v, want %v", got, want)
		}
		select {
		case at := <-slow.C:
			if got := at.Sub(begun); got != 500*time.Millisecond {
				t.Errorf("a slow ticker ticks at %v, together with none of the fast one", got)
			}
		default:
			t.Error("a slow ticker has not ticked")
		}
		fast.Reset(200 * time.Millisecond)
		if got := moments(fast, 1)[0]; got != 800*time.Millisecond {
			t.Errorf("after Reset it ticks at %v, want 800ms", got)
		}
	})
}

// TestPulseWithoutPulse: the zero value ticks after each period, and a stopped ticker never does.
func TestPulseWithoutPulse(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(130 * time.Millisecond)
		begun := time.Now()
		ticker := Pulse{}.Ticker(time.Second)
		for i := range 3 {
			if <-ticker.C; time.Since(begun) != time.Duration(i+1)*time.Second {
				t.Errorf("tick %d after %v", i, time.Since(begun))
			}
		}
		time.Sleep(10 * time.Second) // ticks that nobody takes are one
		<-ticker.C
		select {
		case <-ticker.C:
			t.Error("two ticks waited")
		default:
		}
		ticker.Stop()
		time.Sleep(10 * time.Second)
		select {
		case <-ticker.C:
			t.Error("it ticks after Stop")
		default:
		}
	})
}
