"""What tests and benchmarks share: real object stores on the loopback interface, and a proxy that
makes them fail on purpose."""
