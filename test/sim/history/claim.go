package history

import (
	"fmt"
	"strings"

	"holdfast/tree"
)

// Claim is what a client asks a recipe for: a lock, a permit or a leadership.
type Claim struct {
	// Name says which call for a grant it is: no two of a run have the same. On Works and Rests it is that of one context
	// of the grant.
	Name string
	// Recipe is "mutex", "read lock", "write lock", "semaphore" or "election". Path is that of the recipe.
	Recipe, Path string
	// Token is the fencing token of the grant, 0 before there is one.
	Token tree.Stamp
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
	if c.Token != 0 {
		fmt.Fprintf(&b, ", token %v", c.Token)
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
