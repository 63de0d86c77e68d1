package history

import (
	"fmt"
	"strings"

	"holdfast/session"
	"holdfast/tree"
)

// Use is a call of a recipe without a grant to work under, or an outcome of a grant beyond its end.
type Use struct {
	// Path is the recipe's path. Verb names the call.
	Path, Verb string
	// Data is the given or returned data: of an item, the result of a job, the id of a member.
	Data string
	// Number is the number added to a counter, Sum the returned sum.
	Number, Sum int64
	// Token is the fencing token that the call is about; 0 for none.
	Token tree.Stamp
	// First: this call made the result of the job.
	First bool
	// View names a view of a group, uniquely in the run. Members are those that it shows.
	View    string
	Members []Member
}

// Member is a member of a group, as a view shows it.
type Member struct {
	ID, Address string
	Session     session.ID
	Token       tree.Stamp
}

// String returns the use as the end of a line.
func (u *Use) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, " %s %s", u.Path, u.Verb)
	if u.Data != "" {
		fmt.Fprintf(&b, " %q", u.Data)
	}
	if u.Number != 0 || u.Sum != 0 {
		fmt.Fprintf(&b, " %d, sum %d", u.Number, u.Sum)
	}
	if u.Token != 0 {
		fmt.Fprintf(&b, ", token %v", u.Token)
	}
	if u.First {
		b.WriteString(", first")
	}
	if u.View != "" {
		fmt.Fprintf(&b, " %s", u.View)
	}
	for _, m := range u.Members {
		fmt.Fprintf(&b, " %s %q of %s at %v", m.ID, m.Address, m.Session, m.Token)
	}
	return b.String()
}
