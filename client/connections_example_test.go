package client_test

import (
	"errors"
	"fmt"

	"holdfast/client"
	"holdfast/session"
)

// ExampleClient_Connections finds the connection of a session's client at the node that serves the session.
func ExampleClient_Connections() {
	ctx, s, _ := inExample("/connections")
	find := client.ConnectionOptions{Session: s.ID()}
	list, err := examples.client.Connections(ctx, examples.address, find)
	check(err)
	fmt.Println(len(list.Connections), "connection speaks", list.Connections[0].Protocol)
	check(s.Close(ctx))
	_, err = examples.client.Connections(ctx, examples.address, find)
	fmt.Println(errors.Is(err, session.ErrNoConnection))
	// Output:
	// 1 connection speaks grpc
	// true
}
