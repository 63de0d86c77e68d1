package history

import (
	"fmt"
	"time"
)

// Room is something of which there is only so much, as one client uses it.
type Room struct {
	// Name is the name of its bound, and Limit a part of the words for how much there is. What is refused says both. Limit
	// is empty where clients are not refused, but wait.
	Name, Limit string
	// Within is how soon there is room again, once what took it is given back.
	Within time.Duration
	// Closed are requests that need room of it themselves: nobody is served with them while it is full.
	Closed []Op
}

// Backup is what a backup holds.
type Backup struct{ Sessions, Entries int }

// String returns the room as the middle of a line.
func (r *Room) String() string { return fmt.Sprintf(" %s (%s)", r.Name, r.Limit) }
