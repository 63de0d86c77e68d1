package history

import (
	"fmt"
	"strings"
	"time"

	"holdfast/tree"
)

// Claim is a client's call of a recipe: for a lock, a permit or a leadership.
type Claim struct {
	// Name identifies the call for a grant in the run. On Works and Rests it identifies one context of the grant.
	Name string
	// Recipe is a recipe that the checker knows. Path is the recipe's path, or the path of the claim of one item.
	Recipe, Path string
	// Data, of a claim of a queue, is that of the item.
	Data string
	// Token is the fencing token of the grant, 0 before the grant.
	Token tree.Stamp
	// LockDelay is the requested lock-delay.
	LockDelay time.Duration
	// Broken, on GaveUp and Released: another client had removed the entry.
	Broken bool
	// Newest, on Fenced, is the newest token that the resource has seen.
	Newest tree.Stamp
	// Holds, on FenceChecked, is the answer.
	Holds bool
	// Left, on QueueRead, are the entries of contenders.
	Left []string
}

// String returns the claim as the end of a line.
func (c *Claim) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, " %s: %s %s", c.Name, c.Recipe, c.Path)
	if c.Data != "" {
		fmt.Fprintf(&b, " %q", c.Data)
	}
	if c.Token != 0 {
		fmt.Fprintf(&b, ", token %v", c.Token)
	}
	if c.LockDelay != 0 {
		fmt.Fprintf(&b, ", lock-delay %v", c.LockDelay)
	}
	if c.Broken {
		b.WriteString(", broken")
	}
	if c.Newest != 0 {
		fmt.Fprintf(&b, ", newest %v", c.Newest)
	}
	if c.Holds {
		b.WriteString(", holds")
	}
	if len(c.Left) > 0 {
		fmt.Fprintf(&b, ", left %s", strings.Join(c.Left, " "))
	}
	return b.String()
}
