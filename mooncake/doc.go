// Package mooncake is a client of a Mooncake Store.
package mooncake
