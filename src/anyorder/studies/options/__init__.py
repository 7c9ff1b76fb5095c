"""What a user may say to each study, written once; nothing heavy is imported here, so that ``--help`` stays quick."""
