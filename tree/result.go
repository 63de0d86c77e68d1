package tree

import "fmt"

// Result is what became of a numbered write. The state keeps it until it is acknowledged (X2, X3).
type Result struct {
	// Stamp is the write's own (G4).
	Stamp Stamp
	// Void says that a void took the number: the write has no effect (X6). Outcome is then empty.
	Void    bool
	Outcome Outcome
}

// KeptWill is what the state keeps of a will.
type KeptWill struct {
	Transaction Transaction
	// Principals are those of the write that set the will.
	Principals []Principal
}

// GapError refuses a write whose number comes too early; the number stays free (X2, X8).
type GapError struct {
	// Expected is the number that must come next.
	Expected uint64
}

func (e *GapError) Error() string {
	return fmt.Sprintf("an earlier write is missing: number %d must come next", e.Expected)
}

// WindowError refuses a write of a session that holds too many results; the number stays free (X3).
type WindowError struct {
	// Limit says which limit the session has reached.
	Limit string
}

func (e *WindowError) Error() string {
	return "results wait to be acknowledged: " + e.Limit
}
