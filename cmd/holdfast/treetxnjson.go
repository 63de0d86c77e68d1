package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"holdfast/tree"
)

// jsonTransaction is a transaction as users write it in JSON.
type jsonTransaction struct {
	If   []jsonCondition `json:"if"`
	Then []jsonOp        `json:"then"`
	Else []jsonOp        `json:"else"`
}

type jsonCondition struct {
	Path     string   `json:"path"`
	Property string   `json:"property"`
	Is       string   `json:"is"`
	Value    jsonWord `json:"value"`
}

// jsonOp is an operation: each has some of the fields.
type jsonOp struct {
	Op   string `json:"op"`
	Path string `json:"path"`
	// Data is in base64, Text as it is: one of them at most.
	Data    *[]byte `json:"data"`
	Text    *string `json:"text"`
	Version *int64  `json:"version"`

	Sequential bool     `json:"sequential"`
	Parents    bool     `json:"parents"`
	Container  bool     `json:"container"`
	TTL        string   `json:"ttl"`
	ACL        []string `json:"acl"`
}

// jsonWord is a string or a number.
type jsonWord string

// UnmarshalJSON implements [json.Unmarshaler].
func (w *jsonWord) UnmarshalJSON(b []byte) error {
	var number json.Number
	if err := json.Unmarshal(b, &number); err == nil {
		*w = jsonWord(number)
		return nil
	}
	return json.Unmarshal(b, (*string)(w))
}

// parseJSONTransaction reads a transaction in JSON. Its errors are about usage.
func parseJSONTransaction(text string) (tree.Transaction, error) {
	var given jsonTransaction
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&given); err != nil {
		return tree.Transaction{}, usage("transaction: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return tree.Transaction{}, usage("transaction: more follows its end")
	}
	var x tree.Transaction
	for i, one := range given.If {
		words := []string{one.Path, one.Property}
		if one.Is != "" || one.Value != "" {
			words = append(words, one.Is, string(one.Value))
		}
		c, err := parseCondition(words)
		if err != nil {
			return tree.Transaction{}, usage("if[%d]: %w", i, err)
		}
		x.If = append(x.If, c)
	}
	for _, of := range []struct {
		name  string
		given []jsonOp
		ops   *[]tree.Op
	}{{"then", given.Then, &x.Then}, {"else", given.Else, &x.Else}} {
		for i := range of.given {
			op, err := of.given[i].parse()
			if err != nil {
				return tree.Transaction{}, usage("%s[%d]: %w", of.name, i, err)
			}
			*of.ops = append(*of.ops, op)
		}
	}
	if err := x.Check(); err != nil {
		return tree.Transaction{}, usageError{err}
	}
	return x, nil
}

// parse returns the operation. A field that the operation does not have is an error.
func (o *jsonOp) parse() (tree.Op, error) {
	version := int64(tree.Any)
	if o.Version != nil {
		if version = *o.Version; version < 0 {
			return nil, fmt.Errorf("version %d: want 0 or more", version)
		}
	}
	if err := o.fits(); err != nil {
		return nil, err
	}
	data := o.data()
	switch o.Op {
	case "create":
		return o.create(data)
	case "set":
		return tree.Set{Path: o.Path, Data: data, Version: version}, nil
	case "delete":
		return tree.Delete{Path: o.Path, Version: version}, nil
	case "check":
		return tree.Check{Path: o.Path, Version: version}, nil
	case "delete-tree":
		return tree.DeleteTree{Path: o.Path}, nil
	default:
		acl, err := parseGrants(o.ACL)
		return tree.SetACL{Path: o.Path, ACL: acl, Version: version}, err
	}
}

// fits returns an error for an operation that there is not, and for a field that it does not have.
func (o *jsonOp) fits() error {
	fields, known := map[string]string{
		"create": "data acl new", "set": "data version", "delete": "version", "check": "version", "delete-tree": "",
		"acl": "version acl",
	}[o.Op]
	if !known {
		return fmt.Errorf("op %q: want create, set, delete, check, delete-tree or acl", o.Op)
	}
	for field, given := range map[string]bool{
		"data": o.Data != nil || o.Text != nil, "version": o.Version != nil, "acl": o.ACL != nil,
		"new": o.Sequential || o.Parents || o.Container || o.TTL != "",
	} {
		if given && !strings.Contains(fields, field) {
			return fmt.Errorf("op %q has no such field: want only path %s", o.Op, strings.Replace(fields, "new",
				"sequential parents container ttl", 1))
		}
	}
	if o.Data != nil && o.Text != nil {
		return errors.New("want data or text, not both")
	}
	return nil
}

// data returns the data of the operation; nil for none.
func (o *jsonOp) data() []byte {
	switch {
	case o.Data != nil:
		return *o.Data
	case o.Text != nil:
		return []byte(*o.Text)
	default:
		return nil
	}
}

func (o *jsonOp) create(data []byte) (tree.Op, error) {
	create := tree.Create{
		Path: o.Path, Sequential: o.Sequential, Parents: o.Parents, Data: data, Kind: tree.Persistent,
	}
	var err error
	switch {
	case o.Container && o.TTL != "":
		return nil, errors.New("want container or ttl, not both")
	case o.Container:
		create.Kind = tree.Container
	case o.TTL != "":
		create.Kind = tree.Expiring
		if create.TTL, err = time.ParseDuration(o.TTL); err != nil {
			return nil, fmt.Errorf("ttl %q: want a duration such as 90s", o.TTL)
		}
	}
	create.ACL, err = parseGrants(o.ACL)
	return create, err
}
