// Package postgres shows fences that PostgreSQL keeps, and tests them at a real server. It is a separate module: a
// program that uses package fence does not need the driver.
package postgres
