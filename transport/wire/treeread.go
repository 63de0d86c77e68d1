package wire

import (
	"fmt"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/tree"
)

// ReadOptionsProto returns the options of a read; nil for no options.
func ReadOptionsProto(o tree.ReadOptions) *holdfastv1.ReadOptions {
	if o == (tree.ReadOptions{}) {
		return nil
	}
	return &holdfastv1.ReadOptions{Seen: uint64(o.Seen), Linearizable: o.Linearizable, AllowStale: o.AllowStale}
}

func readOptionsFrom(p *holdfastv1.ReadOptions) (tree.ReadOptions, error) {
	o := tree.ReadOptions{
		Seen: tree.Stamp(p.GetSeen()), Linearizable: p.GetLinearizable(), AllowStale: p.GetAllowStale(),
	}
	if o.Linearizable && o.AllowStale {
		return o, &session.FieldError{Field: "options.allow_stale", Limit: "false with linearizable"}
	}
	return o, nil
}

// UnaryQueryFrom returns the query of a unary read of TreeService. The error is a [session.FieldError].
func UnaryQueryFrom(request any) (tree.Query, error) {
	p := &holdfastv1.TreeRead{}
	if r, ok := request.(interface {
		GetOptions() *holdfastv1.ReadOptions
	}); ok {
		p.Options = r.GetOptions()
	}
	switch r := request.(type) {
	case *holdfastv1.GetRequest:
		p.Read = &holdfastv1.TreeRead_Get{Get: r.GetPath()}
	case *holdfastv1.ExistsRequest:
		p.Read = &holdfastv1.TreeRead_Exists{Exists: r.GetPath()}
	case *holdfastv1.ListRequest:
		p.Read = &holdfastv1.TreeRead_List{List: r.GetListing()}
	case *holdfastv1.GetEphemeralsRequest:
		p.Read = &holdfastv1.TreeRead_Ephemerals{Ephemerals: r.GetEphemerals()}
	case *holdfastv1.GetACLRequest:
		p.Read = &holdfastv1.TreeRead_Acl{Acl: r.GetPath()}
	case *holdfastv1.CheckFenceRequest:
		p.Read = &holdfastv1.TreeRead_Fence{Fence: r.GetFence()}
		p.Options = &holdfastv1.ReadOptions{Seen: r.GetSeen()}
	case *holdfastv1.SyncRequest:
		p.Read = &holdfastv1.TreeRead_Sync{Sync: true}
		p.Options = &holdfastv1.ReadOptions{Seen: r.GetSeen()}
	}
	return QueryFrom(p)
}

// QueryFrom returns the query of a read on a Connect stream. A fence and a sync are linearizable whatever the options
// say. The error is a [session.FieldError].
func QueryFrom(p *holdfastv1.TreeRead) (tree.Query, error) {
	o, err := readOptionsFrom(p.GetOptions())
	if err != nil {
		return tree.Query{}, err
	}
	q := tree.Query{Options: o, Session: p.GetSessionId(), Watch: p.GetWatch()}
	switch r := p.GetRead().(type) {
	case *holdfastv1.TreeRead_Get:
		q.Kind = tree.GetEntry
		q.Path, err = PathFrom("path", r.Get)
	case *holdfastv1.TreeRead_Exists:
		q.Kind = tree.GetStat
		q.Path, err = PathFrom("path", r.Exists)
	case *holdfastv1.TreeRead_List:
		err = Within("listing", listingFrom(&q, r.List))
	case *holdfastv1.TreeRead_Ephemerals:
		err = Within("ephemerals", ephemeralsFrom(&q, r.Ephemerals))
	case *holdfastv1.TreeRead_Acl:
		q.Kind = tree.GetACL
		q.Path, err = PathFrom("path", r.Acl)
	case *holdfastv1.TreeRead_Fence:
		if err = Within("fence", fenceFrom(&q, r.Fence)); err == nil {
			err = linearizable(&q, true)
		}
	case *holdfastv1.TreeRead_Sync:
		q.Kind, err = tree.Sync, linearizable(&q, r.Sync)
	default:
		err = &session.FieldError{Field: "read", Limit: "get, exists, list, ephemerals, acl, fence or sync"}
	}
	if err == nil && q.Watch && q.WatchKind() == 0 {
		err = &session.FieldError{Field: "watch", Limit: "false unless it is with get, exists or list"}
	}
	if err != nil {
		return tree.Query{}, err
	}
	return q, nil
}

// linearizable makes a query linearizable. It refuses the option allow_stale.
func linearizable(q *tree.Query, requested bool) error {
	switch {
	case !requested:
		return &session.FieldError{Field: "sync", Limit: "true"}
	case q.Options.AllowStale:
		return &session.FieldError{Field: "options.allow_stale", Limit: "false with a linearizable read"}
	}
	q.Options.Linearizable = true
	return nil
}

func listingFrom(q *tree.Query, p *holdfastv1.Listing) (err error) {
	q.Kind, q.After, q.WithData, q.WithStat = tree.ListChildren, p.GetAfter(), p.GetWithData(), p.GetWithStat()
	q.Backward = p.GetBackward()
	if q.Path, err = PathFrom("path", p.GetPath()); err != nil {
		return err
	}
	if q.After != "" {
		if _, err = PathFrom("after", tree.Join(tree.Root, q.After)); err != nil || tree.Depth("/"+q.After) != 1 {
			return &session.FieldError{Field: "after", Limit: "must be valid: the name of a child"}
		}
	}
	q.PageSize, err = pageFrom(p.GetPageSize())
	return err
}

func ephemeralsFrom(q *tree.Query, p *holdfastv1.EphemeralsOf) (err error) {
	q.Kind, q.Owner, q.Path, q.After = tree.ListEphemerals, p.GetSessionId(), p.GetPrefix(), p.GetAfter()
	switch {
	case q.Owner == 0:
		return &session.FieldError{Field: "session_id", Limit: notZero}
	case len(q.Path) > tree.MaxPath:
		return &session.FieldError{Field: "prefix", Limit: "at most 4,096 bytes"}
	}
	if q.After != "" {
		if _, err = PathFrom("after", q.After); err != nil {
			return err
		}
	}
	q.PageSize, err = pageFrom(p.GetPageSize())
	return err
}

func pageFrom(size uint32) (int, error) {
	switch {
	case size == 0:
		return tree.DefaultPage, nil
	case size > tree.MaxPage:
		return 0, &session.FieldError{Field: "page_size", Limit: fmt.Sprintf("0 to %d", tree.MaxPage)}
	}
	return int(size), nil
}

func fenceFrom(q *tree.Query, p *holdfastv1.Fence) (err error) {
	q.Kind, q.Token = tree.CheckFence, tree.Stamp(p.GetToken())
	if q.Path, err = PathFrom("path", p.GetPath()); err != nil {
		return err
	}
	if q.Token == 0 {
		return &session.FieldError{Field: "token", Limit: notZero}
	}
	return nil
}

// QueryProto returns a read of a Connect stream.
func QueryProto(seq uint64, q tree.Query) *holdfastv1.TreeRead {
	p := &holdfastv1.TreeRead{Seq: seq, SessionId: q.Session, Options: ReadOptionsProto(q.Options), Watch: q.Watch}
	switch q.Kind {
	case tree.GetEntry:
		p.Read = &holdfastv1.TreeRead_Get{Get: q.Path}
	case tree.GetStat:
		p.Read = &holdfastv1.TreeRead_Exists{Exists: q.Path}
	case tree.ListChildren:
		p.Read = &holdfastv1.TreeRead_List{List: &holdfastv1.Listing{
			Path: q.Path, After: q.After, PageSize: uint32(q.PageSize), WithData: q.WithData, WithStat: q.WithStat,
			Backward: q.Backward,
		}}
	case tree.ListEphemerals:
		p.Read = &holdfastv1.TreeRead_Ephemerals{Ephemerals: &holdfastv1.EphemeralsOf{
			SessionId: q.Owner, Prefix: q.Path, After: q.After, PageSize: uint32(q.PageSize),
		}}
	case tree.GetACL:
		p.Read = &holdfastv1.TreeRead_Acl{Acl: q.Path}
	case tree.CheckFence:
		p.Read = &holdfastv1.TreeRead_Fence{Fence: &holdfastv1.Fence{Path: q.Path, Token: uint64(q.Token)}}
	case tree.Sync:
		p.Read = &holdfastv1.TreeRead_Sync{Sync: true}
	}
	return p
}
