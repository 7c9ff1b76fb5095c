"""What goes to and comes from the disk: texts, data sets, journals of long runs, whole files or none."""
