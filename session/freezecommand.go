package session

import "time"

// FreezeExpiry begins a freeze, or changes the one that there is (Y3).
type FreezeExpiry struct {
	// For is 1 ms to [MaxFreeze] from the entry's running clock on.
	For time.Duration
	// MS is the leader's wall clock in milliseconds since [Epoch].
	MS uint64
	// By and Why are those of a [Freeze].
	By, Why string
}

// ThawExpiry ends the freeze that there is.
type ThawExpiry struct{}

// ExtendSession has the state ignore closes for an expiry of the session for a time of the log clock (Y4).
type ExtendSession struct {
	ID ID
	// For is 0 to [MaxFreeze]; 0 takes an extension back.
	For time.Duration
}

func (FreezeExpiry) command()  {}
func (ThawExpiry) command()    {}
func (ExtendSession) command() {}
