//go:build !race

package router

// RaceEnabled is for the tests of both packages here.
const RaceEnabled = false
