"""What workloads of our own measure, beside what others measure of the same."""
