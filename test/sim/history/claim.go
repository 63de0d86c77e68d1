package history

import (
	"fmt"
	"strings"
	"time"

	"holdfast/tree"
)

// Claim is what a client asks a recipe for: a lock, a permit or a leadership.
type Claim struct {
	// Name says which call for a grant it is: no two of a run have the same. On Works and Rests it is that of one context
	// of the grant.
	Name string
	// Recipe is one of those that the checker knows. Path is that of the recipe, or that of the claim of one item.
	Recipe, Path string
	// Data, of a claim of a queue, is that of the item.
	Data string
	// Token is the fencing token of the grant, 0 before there is one.
	Token tree.Stamp
	// Linger is the lock-delay that was asked for.
	Linger time.Duration
	// Broken, on Forgoes and Cedes, says that somebody had removed the entry.
	Broken bool
	// Newest, on Fenced, is the newest token that the resource has seen.
	Newest tree.Stamp
	// Holds, on Vouched, is the answer.
	Holds bool
	// Left, on Lined, are the entries of contenders.
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
	if c.Linger != 0 {
		fmt.Fprintf(&b, ", lingers %v", c.Linger)
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
