package clientport

import (
	"testing"

	"holdfast/auth"
	"holdfast/session"
)

// Every call of every service of the port has a row in the table of what calls need, and every row is of such a call.
func TestEveryCallHasItsRoles(t *testing.T) {
	table := auth.ClientPort()
	s := New(Config{Operators: Operators{Admin: struct{ session.Administration }{}}}, &fakeService{}, fakeCluster{})
	for service, info := range s.port.GetServiceInfo() {
		for _, m := range info.Methods {
			method := "/" + service + "/" + m.Name
			if _, ok := table[method]; !ok {
				t.Errorf("%s has no row: add one to auth/table.go, with the roles that may make it, and the name of the "+
					"act if an operator changes something by it", method)
			}
			delete(table, method)
		}
	}
	for method := range table {
		t.Errorf("%s has a row, and no service has it", method)
	}
}
