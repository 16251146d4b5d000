// Package telemetry names everything that Signalbox reports (spans, attributes, events, metrics and their closed
// vocabularies) and holds the instruments with recorders that cost no allocation. It must know nothing of routing, nor of
// the SDK and the exporters: it uses the OpenTelemetry API only, so without providers it does nothing.
//
// Two grains are never mixed: a ModelRecorder tells what the client saw, once a request; a TargetRecorder tells what one
// upstream did, once a dispatch. Token usage sits on the second, so that no sum counts it twice; what a CallerRecorder tells of who
// used it has names of its own, and is the sum over a request's dispatches.
package telemetry
