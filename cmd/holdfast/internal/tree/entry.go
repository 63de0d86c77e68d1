package tree

import (
	"encoding/base64"
	"strconv"
	"time"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/view"
	"holdfast/session"
	"holdfast/session/words"
	"holdfast/tree"
)

// statView is the metadata of an entry, in JSON.
type statView struct {
	Kind             string    `json:"kind"`
	Version          int64     `json:"version"`
	Bytes            int       `json:"bytes"`
	Children         int       `json:"children"`
	ChildrenVersion  int64     `json:"children_version"`
	ACLVersion       int64     `json:"acl_version"`
	Owner            *view.ID  `json:"owner,omitempty"` // absent for an entry that is not ephemeral
	Created          string    `json:"created"`
	Modified         string    `json:"modified"`
	ChildrenModified string    `json:"children_modified"`
	CreatedAt        time.Time `json:"created_at"`
	ModifiedAt       time.Time `json:"modified_at"`
	// RemainingMS is the longest time until the entry expires; absent for an entry that does not expire, or not now.
	RemainingMS *int64 `json:"remaining_ms,omitempty"`
}

func viewStat(s tree.Stat) *statView {
	v := &statView{
		Kind: s.Kind.String(), Version: s.Version, Bytes: s.Bytes, Children: s.Children,
		ChildrenVersion: s.ChildrenVersion, ACLVersion: s.ACLVersion, Created: s.Created.String(),
		Modified: s.Modified.String(), ChildrenModified: s.ChildrenModified.String(), CreatedAt: s.CreatedAt,
		ModifiedAt: s.ModifiedAt,
	}
	if s.Owner != 0 {
		v.Owner = new(view.ID(s.Owner))
	}
	if s.Due != 0 {
		v.RemainingMS = new(s.Remaining.Milliseconds())
	}
	return v
}

// remainingText shows the longest time until an entry expires.
func remainingText(s tree.Stat) string {
	if s.Due == 0 {
		return "-"
	}
	return words.Span(s.Remaining)
}

func ownerText(owner uint64) string {
	if owner == 0 {
		return "-"
	}
	return session.ID(owner).String()
}

// statRows are the rows of [cli.Properties] of an entry.
func statRows(path string, s tree.Stat) [][]string {
	return [][]string{
		{"path", path},
		{"kind", s.Kind.String()},
		{"version", strconv.FormatInt(s.Version, 10)},
		{"size", words.Bytes(uint64(s.Bytes))},
		{"children", strconv.Itoa(s.Children)},
		{"owner", ownerText(s.Owner)},
		{"remaining", remainingText(s)},
		{"created", s.Created.String() + "  " + words.Moment(s.CreatedAt)},
		{"modified", s.Modified.String() + "  " + words.Moment(s.ModifiedAt)},
		{"children modified", s.ChildrenModified.String()},
		{"children version", strconv.FormatInt(s.ChildrenVersion, 10)},
		{"list version", strconv.FormatInt(s.ACLVersion, 10)},
	}
}

// entryView is an entry in JSON. Data is in base64, and absent for null.
type entryView struct {
	Path string    `json:"path"`
	Data *string   `json:"data,omitempty"`
	Stat *statView `json:"stat"`
}

func viewEntry(path string, e client.Entry) entryView {
	v := entryView{Path: path, Stat: viewStat(e.Stat)}
	if e.Data != nil {
		v.Data = new(base64.StdEncoding.EncodeToString(e.Data))
	}
	return v
}
