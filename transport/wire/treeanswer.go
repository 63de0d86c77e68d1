package wire

import (
	"fmt"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/tree"
)

// GetProto returns the answer to a get, without stamp and state.
func GetProto(a tree.Answer) *holdfastv1.GetResponse {
	return &holdfastv1.GetResponse{Data: a.Data, Null: a.Data == nil, Stat: StatProto(a.Stat)}
}

// ExistsProto returns the answer to an exists, without stamp and state.
func ExistsProto(a tree.Answer) *holdfastv1.ExistsResponse {
	if !a.Exists {
		return &holdfastv1.ExistsResponse{}
	}
	return &holdfastv1.ExistsResponse{Stat: StatProto(a.Stat)}
}

// ListProto returns the answer to a list, without stamp and state.
func ListProto(a tree.Answer) *holdfastv1.ListResponse {
	p := &holdfastv1.ListResponse{More: a.More, Stat: StatProto(a.Stat)}
	for _, c := range a.Children {
		one := &holdfastv1.Child{Name: c.Name, Data: c.Data, Hidden: c.Hidden}
		if c.Stat.Kind != 0 {
			one.Stat = StatProto(c.Stat)
		}
		p.Children = append(p.Children, one)
	}
	return p
}

// ACLProto returns the answer to a get of an access list, without stamp and state.
func ACLProto(a tree.Answer) *holdfastv1.GetACLResponse {
	return &holdfastv1.GetACLResponse{Acl: AccessListProto(a.ACL), Inherited: a.Inherited, Stat: StatProto(a.Stat)}
}

// TreeAnswerProto returns the answer to a read of a Connect stream.
func TreeAnswerProto(seq uint64, a tree.Answer) *holdfastv1.TreeAnswer {
	p := &holdfastv1.TreeAnswer{Seq: seq, Stamp: uint64(a.Stamp)}
	switch a.Kind {
	case tree.GetEntry:
		p.Answer = &holdfastv1.TreeAnswer_Get{Get: GetProto(a)}
	case tree.GetStat:
		p.Answer = &holdfastv1.TreeAnswer_Exists{Exists: ExistsProto(a)}
	case tree.ListChildren:
		p.Answer = &holdfastv1.TreeAnswer_List{List: ListProto(a)}
	case tree.ListEphemerals:
		p.Answer = &holdfastv1.TreeAnswer_Ephemerals{
			Ephemerals: &holdfastv1.GetEphemeralsResponse{Paths: a.Paths, More: a.More},
		}
	case tree.GetACL:
		p.Answer = &holdfastv1.TreeAnswer_Acl{Acl: ACLProto(a)}
	case tree.CheckFence:
		p.Answer = &holdfastv1.TreeAnswer_Fence{Fence: &holdfastv1.CheckFenceResponse{Holds: a.Holds}}
	case tree.Sync:
		p.Answer = &holdfastv1.TreeAnswer_Sync{Sync: &holdfastv1.SyncResponse{}}
	}
	return p
}

// TreeAnswerFrom returns the answer to a read. The error is a [session.FieldError] of "answer".
func TreeAnswerFrom(p *holdfastv1.TreeAnswer) (tree.Answer, error) {
	a := tree.Answer{Stamp: tree.Stamp(p.GetStamp())}
	if a.Stamp == 0 {
		return tree.Answer{}, &session.FieldError{Field: "answer.stamp", Limit: notZero}
	}
	var err error
	switch r := p.GetAnswer().(type) {
	case *holdfastv1.TreeAnswer_Get:
		a.Kind, a.Exists = tree.GetEntry, true
		if a.Data, err = dataFrom(r.Get.GetData(), r.Get.GetNull()); err == nil {
			a.Stat, err = StatFrom(r.Get.GetStat())
		}
	case *holdfastv1.TreeAnswer_Exists:
		a.Kind, a.Exists = tree.GetStat, r.Exists.GetStat() != nil
		if a.Exists {
			a.Stat, err = StatFrom(r.Exists.GetStat())
		}
	case *holdfastv1.TreeAnswer_List:
		a.Kind, a.Exists = tree.ListChildren, true
		err = listFrom(&a, r.List)
	case *holdfastv1.TreeAnswer_Ephemerals:
		a.Kind, a.Paths, a.More = tree.ListEphemerals, r.Ephemerals.GetPaths(), r.Ephemerals.GetMore()
	case *holdfastv1.TreeAnswer_Acl:
		a.Kind, a.Exists, a.Inherited = tree.GetACL, true, r.Acl.GetInherited()
		a.ACL = ExistingListFrom(r.Acl.GetAcl())
		a.Stat, err = StatFrom(r.Acl.GetStat())
	case *holdfastv1.TreeAnswer_Fence:
		a.Kind, a.Holds = tree.CheckFence, r.Fence.GetHolds()
	case *holdfastv1.TreeAnswer_Sync:
		a.Kind = tree.Sync
	default:
		err = &session.FieldError{Field: "kind", Limit: "get, exists, list, ephemerals, acl, fence or sync"}
	}
	if err != nil {
		return tree.Answer{}, Within("answer", err)
	}
	return a, nil
}

func listFrom(a *tree.Answer, p *holdfastv1.ListResponse) (err error) {
	if a.Stat, err = StatFrom(p.GetStat()); err != nil {
		return err
	}
	a.More = p.GetMore()
	for i, c := range p.GetChildren() {
		one := tree.Child{Name: c.GetName(), Hidden: c.GetHidden(), Data: c.GetData()}
		if one.Name == "" {
			return &session.FieldError{Field: fmt.Sprintf("children[%d].name", i), Limit: "not empty"}
		}
		if c.GetStat() != nil {
			if one.Stat, err = StatFrom(c.GetStat()); err != nil {
				return Within(fmt.Sprintf("children[%d]", i), err)
			}
		}
		a.Children = append(a.Children, one)
	}
	return nil
}
