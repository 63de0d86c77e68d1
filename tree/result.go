package tree

import "fmt"

// Result is the result of a numbered write. The state keeps it until the client acknowledges it (X2 writers, X3 kept
// results).
type Result struct {
	// Stamp is the write's stamp (G4 stamps of answers).
	Stamp Stamp
	// Void says that a void used the number: the write has no effect (X6 giving up), and Outcome is empty.
	Void    bool
	Outcome Outcome
}

// KeptWill is a will as the state keeps it.
type KeptWill struct {
	Transaction Transaction
	// Principals are the principals of the write that set the will.
	Principals []Principal
}

// GapError refuses a write whose number comes too early. The number stays unused (X2, X8 admission of writes).
type GapError struct {
	// Expected is the number that must come next.
	Expected uint64
}

func (e *GapError) Error() string {
	return fmt.Sprintf("an earlier write is missing: number %d must come next", e.Expected)
}

// WindowError refuses a write of a session that holds too many results. The number stays unused (X3).
type WindowError struct {
	// Limit names the limit that the session has reached.
	Limit string
}

func (e *WindowError) Error() string {
	return "results wait to be acknowledged: " + e.Limit
}
