package main

import (
	"errors"
	"strconv"

	"holdfast/tree"
)

// treeAdvice says what the user can do about an operation that the tree has refused; it is empty when the refusal says
// enough.
func treeAdvice(err error) string {
	refused, ok := errors.AsType[*tree.RefusedError](err)
	if !ok {
		return ""
	}
	path := escaped(refused.Path)
	command := func(words string) string { return strconv.Quote("holdfast " + words) }
	switch refused.Code { //nolint:exhaustive // the others say enough
	case tree.NoParent:
		return "Create " + path + " first; " + command("create --parents") + " makes missing parents too."
	case tree.NodeExists:
		return command("set "+path) + " replaces its data."
	case tree.NotEmpty:
		return command("rm -r "+path) + " removes the entry and all below it."
	case tree.BadVersion:
		return command("get --stat "+path) + " shows the versions that it has now."
	case tree.NoPermission:
		return command("acl get "+path) + " shows who may do what. --digest or " + digestVariable + " says who you are."
	case tree.OverQuota:
		return command("quota get PATH") + " shows a quota and what is used of it."
	default:
		return ""
	}
}
