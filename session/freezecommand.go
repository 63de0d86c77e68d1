package session

import "time"

// FreezeExpiry begins a freeze, or changes the present one (Y3 freeze).
type FreezeExpiry struct {
	// For is 1 ms to [MaxFreeze] from the entry's running clock on.
	For time.Duration
	// MS is the leader's wall clock in milliseconds since [Epoch].
	MS uint64
	// By and Why are as in a [Freeze].
	By, Why string
}

// ThawExpiry ends the present freeze.
type ThawExpiry struct{}

// ExtendSession makes the state ignore expiries of the session for a time of the log clock (Y4 extension).
type ExtendSession struct {
	ID ID
	// For is 0 to [MaxFreeze]; 0 cancels an extension.
	For time.Duration
}

func (FreezeExpiry) command()  {}
func (ThawExpiry) command()    {}
func (ExtendSession) command() {}
