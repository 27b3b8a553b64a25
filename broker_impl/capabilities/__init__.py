"""What requests mean, one file for each capability; each answers its codes with methods marked `@answers`."""
