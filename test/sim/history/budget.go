package history

import (
	"fmt"
	"time"
)

// Budget is a bounded resource, as one client uses it.
type Budget struct {
	// Name is the name of its bound, and Limit a part of the text with the bound's value. A refusal contains both.
	// Limit is empty where clients wait instead of being refused.
	Name, Limit string
	// Within is how soon requests are served again after the budget was released.
	Within time.Duration
	// Closed are requests that use this budget: they are refused while it is full.
	Closed []Op
}

// Backup counts a backup's contents.
type Backup struct{ Sessions, Entries int }

// String returns the budget as the middle of a line.
func (r *Budget) String() string { return fmt.Sprintf(" %s (%s)", r.Name, r.Limit) }
