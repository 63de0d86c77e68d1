package wire

import (
	"errors"
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/tree"
)

// fieldOf returns the [session.FieldError] of a request's field for an error of the tree.
func fieldOf(field string, err error) error {
	if err == nil {
		return nil
	}
	why := err.Error()
	if wrong, ok := errors.AsType[*tree.FieldError](err); ok {
		why = wrong.Why
		field += "." + wrong.Field
	}
	return &session.FieldError{Field: field, Limit: "must be valid: " + why}
}

// PathFrom returns the path of an entry.
func PathFrom(field, path string) (string, error) {
	if err := tree.CheckPath(path); err != nil {
		return "", fieldOf(field, err)
	}
	return path, nil
}

// StatProto returns s in protocol buffers.
func StatProto(s tree.Stat) *holdfastv1.Stat {
	p := &holdfastv1.Stat{
		Created: uint64(s.Created), Modified: uint64(s.Modified), ChildrenModified: uint64(s.ChildrenModified),
		CreatedAt: timestamppb.New(s.CreatedAt), ModifiedAt: timestamppb.New(s.ModifiedAt), Version: s.Version,
		ChildrenVersion: s.ChildrenVersion, AclVersion: s.ACLVersion, Owner: s.Owner, Bytes: uint32(s.Bytes),
		Children: uint32(s.Children), Kind: holdfastv1.EntryKind(s.Kind),
	}
	if s.Due != 0 {
		p.Due = durationpb.New(s.Due)
	}
	if s.Remaining != 0 {
		p.Remaining = durationpb.New(s.Remaining)
	}
	return p
}

// StatFrom returns the stat in p. The error is a [session.FieldError] of "stat".
func StatFrom(p *holdfastv1.Stat) (tree.Stat, error) {
	field := func(name, limit string) (tree.Stat, error) {
		return tree.Stat{}, &session.FieldError{Field: "stat" + name, Limit: limit}
	}
	due, err := DurationFrom("stat.due", p.GetDue(), NotNegative)
	remaining, remainingErr := DurationFrom("stat.remaining", p.GetRemaining(), NotNegative)
	switch {
	case p == nil:
		return field("", session.Missing)
	case p.GetCreated() == 0:
		return field(".created", notZero)
	case p.GetModified() < p.GetCreated():
		return field(".modified", "not below created")
	case p.GetChildrenModified() < p.GetCreated():
		return field(".children_modified", "not below created")
	case p.GetCreatedAt().CheckValid() != nil:
		return field(".created_at", "a valid google.protobuf.Timestamp")
	case p.GetModifiedAt().CheckValid() != nil:
		return field(".modified_at", "a valid google.protobuf.Timestamp")
	case min(p.GetVersion(), p.GetChildrenVersion(), p.GetAclVersion()) < 0:
		return field(".version", "not negative, nor any other version")
	case max(p.GetBytes(), p.GetChildren()) > math.MaxInt32:
		return field(".bytes", "at most 2^31 - 1, and so children")
	case p.GetKind() <= 0 || p.GetKind() > holdfastv1.EntryKind_ENTRY_KIND_LOCK_DELAY:
		return field(".kind", "a kind of entries")
	case err != nil:
		return tree.Stat{}, err
	case remainingErr != nil:
		return tree.Stat{}, remainingErr
	}
	return tree.Stat{
		Created: tree.Stamp(p.GetCreated()), Modified: tree.Stamp(p.GetModified()),
		ChildrenModified: tree.Stamp(p.GetChildrenModified()), CreatedAt: p.GetCreatedAt().AsTime(),
		ModifiedAt: p.GetModifiedAt().AsTime(), Version: p.GetVersion(), ChildrenVersion: p.GetChildrenVersion(),
		ACLVersion: p.GetAclVersion(), Owner: p.GetOwner(), Bytes: int(p.GetBytes()), Children: int(p.GetChildren()),
		Kind: tree.Kind(p.GetKind()), Due: due, Remaining: remaining,
	}, nil
}

// AccessListProto returns an access list; nil for nil. It replaces invalid UTF-8 in ids.
func AccessListProto(acl tree.ACL) *holdfastv1.AccessList {
	if acl == nil {
		return nil
	}
	p := &holdfastv1.AccessList{Grants: make([]*holdfastv1.Grant, len(acl))}
	for i, g := range acl {
		p.Grants[i] = &holdfastv1.Grant{
			Permissions: uint32(g.Permissions), Scheme: g.Scheme, Id: strings.ToValidUTF8(g.ID, "\uFFFD"),
		}
	}
	return p
}

// AccessListFrom returns an access list; nil for an absent one. Grants of the scheme auth are replaced by the client's
// principals (P1 principals).
func AccessListFrom(p *holdfastv1.AccessList, principals []tree.Principal) (tree.ACL, error) {
	if p == nil {
		return nil, nil
	}
	if n := len(p.GetGrants()); n > tree.MaxGrants {
		return nil, &session.FieldError{Field: "acl.grants", Limit: "at most 64 grants"}
	}
	acl := make(tree.ACL, len(p.GetGrants()))
	for i, g := range p.GetGrants() {
		if g.GetPermissions() > uint32(tree.All) {
			return nil, &session.FieldError{Field: "acl.permissions", Limit: "1 to 31"}
		}
		acl[i] = tree.Grant{Permissions: tree.Permissions(g.GetPermissions()), Scheme: g.GetScheme(), ID: g.GetId()}
	}
	acl, err := acl.Expand(principals)
	if err == nil {
		err = acl.Check()
	}
	if err != nil {
		return nil, &session.FieldError{Field: "acl", Limit: "must be valid: " + err.Error()}
	}
	return acl, nil
}

// ExistingListFrom returns the access list of an answer unchecked: only our own client reads it.
func ExistingListFrom(p *holdfastv1.AccessList) tree.ACL {
	if p == nil {
		return nil
	}
	acl := make(tree.ACL, len(p.GetGrants()))
	for i, g := range p.GetGrants() {
		acl[i] = tree.Grant{
			Permissions: tree.Permissions(g.GetPermissions()) & tree.All, Scheme: g.GetScheme(), ID: g.GetId(),
		}
	}
	return acl
}

// dataFrom returns data that may be null.
func dataFrom(b []byte, null bool) ([]byte, error) {
	switch {
	case null && len(b) > 0:
		return nil, &session.FieldError{Field: "null", Limit: "false with data"}
	case null:
		return nil, nil
	case b == nil:
		return []byte{}, nil
	}
	return b, nil
}

// versionProto returns an expected version; nil for any.
func versionProto(v int64) *int64 {
	if v == tree.Any {
		return nil
	}
	return &v
}

func versionFrom(p *int64) (int64, error) {
	switch {
	case p == nil:
		return tree.Any, nil
	case *p < 0:
		return 0, &session.FieldError{Field: "version", Limit: "0 or more, or absent for any"}
	}
	return *p, nil
}

// millisProto returns a duration; nil for 0.
func millisProto(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}
