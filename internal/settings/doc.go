// Package settings reads what a stand-in for llama-server is told about itself,
// beside llama-server's own arguments.
//
// A setting has one name in three places, each stronger than the one before: a
// YAML file (store: none), the environment (OLLAMOON_STORE=none) and the command
// line (--ollamoon-store none). The file is the one that --ollamoon-config or
// OLLAMOON_CONFIG names, which then has to be there, or else those of the program's
// own folder, of the user and of the system, as far as they are there, the first
// being the strongest.
//
// A name that does not exist is an error on the command line and in a file; the
// error lists those that do. In the environment it is not: other programs of this
// project, and container runtimes that describe a service called ollamoon, set
// variables of such names too. A value that cannot be read is an error that says
// where it stands.
package settings
